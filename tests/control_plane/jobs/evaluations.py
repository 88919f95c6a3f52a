"""What tests of SweEvals share: a scripted engine in a Pod, its tokenizer, tasks, an evaluation of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode import HFTokenizer
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns

from demo.job import Images
from tests.control_plane.grading.conftest import SMALL, repository, task
from tests.control_plane.grading.test_episode import FIX, SUBMIT
from tests.scripted_engine import block
from tests.unit.agent.episode.conftest import PLAIN, make_tokenizer

from . import engine_in_a_pod
from .conftest import Body, JobNamespace

__all__ = ["engine", "evaluation", "repository", "task", "tasks", "tokenizer"]
KIND = "sweeval"
TASKS, SAMPLES, SHARDS = 2, 2, 2
MODEL, KEY = "policy-7b", "sk-very-secret-0123456789"  # of the engine's chat completions
PODS = {"requests": {"cpu": "50m", "memory": "256Mi"}}
SANDBOX = {"resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}}}
GRADING = {"timeoutSeconds": 60, "maxConcurrent": 2, "resources": SMALL.model_dump(mode="json", by_alias=True)}


class EngineInAPod:
    """The scripted engine, and what it counted."""

    def __init__(self, kube: JobNamespace, name: str) -> None:
        self._world, self._name = kube, name
        self.url = f"http://{self._ip()}:{engine_in_a_pod.PORT}"

    def sample_counts(self) -> dict[str, int]:
        """How often each episode was started, by routing key."""
        path = f"/api/v1/namespaces/{self._world.namespace}/pods/{self._name}:{engine_in_a_pod.PORT}/proxy/started"
        counts: dict[str, int] = json.loads(self._world.kubectl("get", "--raw", path))
        return counts

    def _ip(self) -> str:
        ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        place = ("get", "pod", self._name, "-o")
        self._world.until(lambda: self._world.kubectl(*place, ready), lambda found: found == "True", 400)
        return self._world.kubectl(*place, "jsonpath={.status.podIP}")


def config_map(kube: JobNamespace, name: str, data: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": kube.namespace}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@pytest.fixture(scope="module")
def tokenizer(kube: JobNamespace, tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    """A tokenizer; its files are in the ConfigMap `tokenizer`."""
    folder = make_tokenizer(tmp_path_factory.mktemp("tokenizer"), PLAIN)
    config_map(kube, "tokenizer", {path.name: path.read_text() for path in folder.iterdir()})
    return HFTokenizer(folder)


@pytest.fixture(scope="module")
def engine(kube: JobNamespace, tokenizer: HFTokenizer) -> Iterator[EngineInAPod]:
    def encode_turns(*commands: str) -> list[list[int]]:
        texts = [f"{block(command)}\n\n```mswea_bash_command\n{command}\n```" for command in commands]  # either agent's
        return [[*tokenizer.encode(text), tokenizer.turn_end_id] for text in texts]

    script = {
        "solve": encode_turns(FIX, SUBMIT), "give_up": encode_turns("true"), "turn_end": tokenizer.turn_end_id,
        "seconds": 1.0, "answers": [block(FIX), block(SUBMIT)], "model": MODEL, "key": KEY,
    }  # fmt: skip
    program = Path(engine_in_a_pod.__file__).read_text()
    config_map(kube, "engine", {"engine.py": program, "answers.json": json.dumps(script)})
    probe = {"httpGet": {"path": "/started", "port": engine_in_a_pod.PORT}, "periodSeconds": 1}
    container = {
        "name": "engine", "image": Images.load()["trainer"], "resources": PODS, "readinessProbe": probe,
        "command": ["python", "/engine/engine.py", "/engine/answers.json"],
        "volumeMounts": [{"name": "engine", "mountPath": "/engine"}],
    }  # fmt: skip
    spec = {"containers": [container], "volumes": [{"name": "engine", "configMap": {"name": "engine"}}]}
    metadata = {"name": "engine", "namespace": kube.namespace}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    yield EngineInAPod(kube, "engine")
    kube.kubectl("delete", "pod", "engine", "--grace-period=0", "--force")


@pytest.fixture(scope="module")
def tasks(kube: JobNamespace, task: Task) -> list[str]:
    """Ids of the tasks in the ConfigMap `tasks`."""
    same = [replace(task, instance_id=f"calc__calc-{number}") for number in range(TASKS)]
    rows = [visible_columns(task_copy) | grading_columns(task_copy) for task_copy in same]
    config_map(kube, "tasks", {"tasks.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    return [task_copy.instance_id for task_copy in same]


def evaluation_body(kube: JobNamespace, name: str) -> Body:
    """An evaluation that needs `engine` and the ConfigMaps `tokenizer` and `tasks`."""
    return {
        "apiVersion": "swerl.dev/v1alpha1",
        "kind": "SweEval",
        "metadata": {"name": name, "namespace": kube.namespace},
        "spec": {
            "model": {"endpoint": {"url": "http://engine:1", "tokenizer": {"configMap": {"name": "tokenizer"}}}},
            "tasks": {"source": {"configMap": {"name": "tasks"}}, "format": "jsonl"},
            "agent": {"stepLimit": 2, "contextTokens": 200_000},
            "sandbox": SANDBOX,
            "grading": GRADING,
            "image": Images.load()["trainer"],
            "resources": PODS,
            "output": {"volume": {"hostPath": {"path": f"/tmp/{kube.namespace}"}}},
        },
    }


@pytest.fixture
def evaluation(kube: JobNamespace, request: pytest.FixtureRequest) -> Iterator[Body]:
    """The evaluation, to change one thing of; deleted after the test."""
    name = f"e{abs(hash(request.node.name)) % 10**6}"
    yield evaluation_body(kube, name)
    kube.kubectl("delete", KIND, name, "--ignore-not-found", check=False)


def results(kube: JobNamespace, name: str) -> list[Body]:
    """Every line that a shard has written."""
    files = (Path("/tmp") / kube.namespace / name).glob("shard-*/results.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def valid_samples(lines: list[Body]) -> Counter[tuple[str, int]]:
    return Counter((line["instance_id"], line["sample"]) for line in lines if line["valid"])


def wait_until_complete(kube: JobNamespace, name: str) -> Body:
    phases = ("Complete", "Failed")
    kube.until(lambda: kube.status(name, KIND), lambda status: status.get("phase") in phases, 400)
    status = kube.status(name, KIND)
    assert status["phase"] == "Complete", status
    return status


def objects_of(kube: JobNamespace, name: str) -> list[str]:
    kinds = "pods,jobs,swesandboxes,rayclusters"  # the Lease of a killed process goes with the evaluation
    return kube.kubectl("get", kinds, "-l", f"swerl.dev/evaluation={name}", "-o", "name").split()
