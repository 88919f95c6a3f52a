"""SweEvals on the real cluster: shards against a scripted engine in a Pod, real sandboxes, real grading."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import HFTokenizer
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns

from demo.job import Images
from tests.control_plane.grading.conftest import SMALL, repository, task
from tests.control_plane.grading.test_episode import FIX, SUBMIT
from tests.control_plane.operator_process import Operator
from tests.scripted_engine import block
from tests.unit.agent_episode.conftest import PLAIN, make_tokenizer

from . import engine_in_a_pod
from .conftest import IMAGE, Body, World

__all__ = ["repository", "task"]
KIND = "sweeval"
TASKS, SAMPLES, SHARDS = 4, 2, 2
PODS = {"requests": {"cpu": "50m", "memory": "256Mi"}}
SANDBOX = {"resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}}}
GRADING = {"timeoutSeconds": 60, "maxConcurrent": 2, "resources": SMALL.model_dump(mode="json", by_alias=True)}


class EngineInAPod:
    """The scripted engine, and what it counted."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self.url = f"http://{self._ip()}:{engine_in_a_pod.PORT}"

    def begun(self) -> dict[str, int]:
        """How often each episode was begun, by routing key."""
        path = f"/api/v1/namespaces/{self._world.namespace}/pods/{self._name}:{engine_in_a_pod.PORT}/proxy/begun"
        counts: dict[str, int] = json.loads(self._world.kubectl("get", "--raw", path))
        return counts

    def _ip(self) -> str:
        self._world.kubectl("wait", f"pod/{self._name}", "--for=condition=Ready", "--timeout=110s")
        return self._world.kubectl("get", "pod", self._name, "-o", "jsonpath={.status.podIP}")


def config_map(world: World, name: str, data: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": world.namespace}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@pytest.fixture(scope="module")
def tokenizer(world: World, tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    """A tokenizer; its files are in the ConfigMap `tokenizer`."""
    folder = make_tokenizer(tmp_path_factory.mktemp("tokenizer"), PLAIN)
    config_map(world, "tokenizer", {path.name: path.read_text() for path in folder.iterdir()})
    return HFTokenizer(folder)


@pytest.fixture(scope="module")
def engine(world: World, tokenizer: HFTokenizer) -> Iterator[EngineInAPod]:
    def said(*commands: str) -> list[list[int]]:
        both = [f"{block(command)}\n\n```mswea_bash_command\n{command}\n```" for command in commands]  # either agent's
        return [[*tokenizer.encode(text), tokenizer.turn_end_id] for text in both]

    script = {
        "solve": said(FIX, SUBMIT), "give_up": said("true"), "turn_end": tokenizer.turn_end_id, "seconds": 1.0,
    }  # fmt: skip
    program = Path(engine_in_a_pod.__file__).read_text()
    config_map(world, "engine", {"engine.py": program, "answers.json": json.dumps(script)})
    probe = {"httpGet": {"path": "/begun", "port": engine_in_a_pod.PORT}, "periodSeconds": 1}
    container = {
        "name": "engine", "image": Images.built()["trainer"], "resources": PODS, "readinessProbe": probe,
        "command": ["python", "/engine/engine.py", "/engine/answers.json"],
        "volumeMounts": [{"name": "engine", "mountPath": "/engine"}],
    }  # fmt: skip
    spec = {"containers": [container], "volumes": [{"name": "engine", "configMap": {"name": "engine"}}]}
    metadata = {"name": "engine", "namespace": world.namespace}
    world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    yield EngineInAPod(world, "engine")
    world.kubectl("delete", "pod", "engine", "--grace-period=0", "--force")


@pytest.fixture(scope="module")
def tasks(world: World, task: Task) -> list[str]:
    """Ids of the tasks in the ConfigMap `tasks`."""
    same = [replace(task, instance_id=f"calc__calc-{number}") for number in range(TASKS)]
    rows = [visible_columns(one) | grading_columns(one) for one in same]
    config_map(world, "tasks", {"tasks.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    return [one.instance_id for one in same]


@pytest.fixture
def evaluation(world: World, request: pytest.FixtureRequest) -> Iterator[Body]:
    """An evaluation that needs `engine` and `tasks`; deleted after the test."""
    name = f"e{abs(hash(request.node.name)) % 10**6}"
    body: Body = {
        "apiVersion": "swerl.dev/v1alpha1",
        "kind": "SweEval",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {
            "model": {"endpoint": {"url": "http://engine:1", "tokenizer": {"configMap": {"name": "tokenizer"}}}},
            "tasks": {"source": {"configMap": {"name": "tasks"}}, "format": "jsonl"},
            "agent": {"stepLimit": 2, "contextTokens": 200_000},
            "sandbox": SANDBOX,
            "grading": GRADING,
            "image": Images.built()["trainer"],
            "resources": PODS,
            "output": {"volume": {"hostPath": {"path": f"/tmp/{world.namespace}"}}},
        },
    }
    yield body
    world.kubectl("delete", KIND, name, "--ignore-not-found", check=False)


def results(world: World, name: str) -> list[Body]:
    """Every line that a shard has written."""
    files = (Path("/tmp") / world.namespace / name).glob("shard-*/results.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def trials(lines: list[Body]) -> Counter[tuple[str, int]]:
    return Counter((line["instance_id"], line["sample"]) for line in lines if line["valid"])


def finished(world: World, name: str) -> Body:
    phases = ("Complete", "Failed")
    world.until(lambda: world.status(name, KIND), lambda status: status.get("phase") in phases, 400)
    status = world.status(name, KIND)
    assert status["phase"] == "Complete", status
    return status


def made_for(world: World, name: str) -> list[str]:
    kinds = "pods,jobs,swesandboxes,rayclusters"  # the Lease of a killed process goes with the evaluation
    return world.kubectl("get", kinds, "-l", f"swerl.dev/evaluation={name}", "-o", "name").split()


def test_shards_survive_a_killed_pod_and_run_nothing_twice(
    world: World, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"] |= {"samples": SAMPLES, "shards": SHARDS, "workers": 1}
    world.apply(evaluation)
    world.until(lambda: results(world, name), lambda lines: len(lines) > 0, 300)
    settled = trials(results(world, name))
    first = f"swerl.dev/evaluation={name},batch.kubernetes.io/job-completion-index=0"
    world.kubectl("delete", "pods", "-l", first, "--grace-period=0", "--force")
    status = finished(world, name)

    assert (status["total"], status["done"], status["resolved"], status["shardsDone"]) == (8, 8, 4, 2)
    assert (status["rate"], status["passAtK"]) == (0.5, {"1": 0.5, "2": 1.0})
    assert trials(results(world, name)) == {(task, sample): 1 for task in tasks for sample in range(SAMPLES)}
    begun = engine.begun()
    assert all(begun[f"{task}-{sample}/{task}"] == 1 for task, sample in settled)

    folder = Path("/tmp") / world.namespace / name
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["resolved"], summary["errors"]) == (4, 0)
    predictions = json.loads((folder / "preds.json").read_text())
    assert set(predictions) == set(tasks)
    assert all("min(high" in row["model_patch"] for row in predictions.values())
    world.until(lambda: made_for(world, name), lambda left: left == [], 90)
    header, row = world.kubectl("get", KIND, name).splitlines()
    assert header.split() == ["NAME", "PHASE", "DONE", "RESOLVED", "RATE", "ERRORS", "AGE"]
    assert row.split()[1:6] == ["Complete", "8/8", "4", "0.5", "0"]


def test_mini_swe_agent_makes_the_attempts(
    world: World, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["agent"] |= {"kind": "mini-swe-agent", "protocol": "mini-swe-agent-2"}
    world.apply(evaluation)
    status = finished(world, name)
    assert (status["total"], status["resolved"], status["errors"]) == (4, 4, 0)
    for line in results(world, name):
        (file,) = (Path("/tmp") / world.namespace / name).glob(f"shard-*/{line['run_dir']}/traj.json")
        prompt = json.loads(file.read_text())["messages"][1]["content"]
        assert "mswea_bash_command" in prompt, "the prompts are its own"


def test_an_evaluation_rests_goes_on_and_leaves_nothing(
    world: World, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["workers"] = 1
    world.apply(evaluation)
    world.until(lambda: results(world, name), lambda lines: len(lines) > 0, 300)
    world.kubectl("patch", KIND, name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    world.until_condition(name, "Suspended", "Suspended", kind=KIND)
    world.until(lambda: made_for(world, name), lambda left: left == [], 90)
    before = trials(results(world, name))
    world.kubectl("patch", KIND, name, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    status = finished(world, name)
    assert (status["total"], status["resolved"]) == (4, 4)
    after = trials(results(world, name))
    assert before <= after and set(after.values()) == {1}
    world.kubectl("delete", KIND, name, "--wait=false")
    mine = "jobs,configmaps,serviceaccounts,rolebindings,pods"
    world.until(lambda: [one for one in world.names(mine) if name in one], lambda left: left == [], 60)


def test_everything_missing_is_told_at_once_and_nothing_starts(
    world: World, operator: Operator, evaluation: Body
) -> None:
    spec = evaluation["spec"]
    spec["model"] = {"job": {"name": "no-job"}}
    spec["rollout"] = {"image": IMAGE}
    spec["tasks"]["source"] = {"configMap": {"name": "no-tasks"}}
    spec["output"] = {"volume": {"persistentVolumeClaim": {"claimName": "no-claim"}}}
    world.apply(evaluation)
    name = evaluation["metadata"]["name"]
    found = world.until_condition(name, "Validated", "JobMissing", kind=KIND)
    for words in ("'no-job' named by spec.model.job", "'no-tasks' named by spec.tasks.source", "'no-claim'"):
        assert words in found["message"]
    assert world.status(name, KIND)["phase"] == "Blocked" and made_for(world, name) == []
    assert "JobMissing" in world.kubectl("describe", KIND, name)


def test_a_job_without_checkpoint_is_waited_for(
    world: World, operator: Operator, job: Body, tasks: list[str], evaluation: Body
) -> None:
    job["spec"]["suspend"] = True
    world.apply(job)
    evaluation["spec"]["model"] = {"job": {"name": job["metadata"]["name"]}}
    evaluation["spec"]["rollout"] = {"image": IMAGE}
    world.apply(evaluation)
    found = world.until_condition(evaluation["metadata"]["name"], "Validated", "NoCheckpoint", kind=KIND)
    assert "wait for its first" in found["message"]


def test_wrong_input_fails_at_once_with_its_words(
    world: World, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["tasks"]["filter"] = "no-such-task"
    world.apply(evaluation)
    name = evaluation["metadata"]["name"]
    found = world.until_condition(name, "Failed", "ShardsFailed", 200, kind=KIND)
    assert "no task left" in found["message"]


def test_engines_come_and_go_with_the_evaluation(
    world: World, operator: Operator, tasks: list[str], evaluation: Body
) -> None:
    """The image has no Ray, so the engines never serve and no shard ever runs."""
    name, small = evaluation["metadata"]["name"], {"requests": {"cpu": "10m", "memory": "16Mi"}}
    evaluation["spec"]["model"] = {"source": {"image": {"reference": IMAGE, "path": "/etc"}}}
    evaluation["spec"]["rollout"] = {
        "image": IMAGE, "sharedMemory": "64Mi", "resources": small, "headResources": small,
    }  # fmt: skip
    world.apply(evaluation)
    cluster = f"raycluster.ray.io/{name}-engines"
    world.until(lambda: world.names("rayclusters"), lambda found: found == [cluster], 150)
    services = world.until(lambda: world.names("services"), lambda found: any(name in one for one in found))
    assert f"service/{name}-engines-head-svc" in services
    ports: Any = json.loads(world.kubectl("get", "service", f"{name}-engines-head-svc", "-o", "json"))["spec"]["ports"]
    assert 30000 in [port["port"] for port in ports]
    assert not [one for one in world.names("jobs") if name in one]
    world.kubectl("patch", KIND, name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    world.until(lambda: made_for(world, name), lambda left: left == [], 90)
