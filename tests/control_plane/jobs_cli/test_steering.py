"""`swerl` for jobs at a real API server: checked before anything is created, created, explained, changed, deleted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_agent.jobs import parse_job
from swerl_agent.jobs.validation import Validation, validate
from swerl_kube import KubeClient

from tests.conftest import kubectl
from tests.control_plane.operator_process import Operator

ROOT = Path(__file__).parents[3]
IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
BAD = [path for path in sorted((ROOT / "examples/invalid").glob("*.yaml")) if "kind: SweRLJob" in path.read_text()]
EXPECT = "# expect: "
STEP = {"kind": "step", "step": 1, "rollout/raw_reward": 0.25}
RANK_LINE = "[rank-3] begin took 2.0 s"
GRADING = {"detail": "FAIL_TO_PASS 0/1", "log": "E   assert 7 == 9\n1 failed\n"}


def job(name: str, **spec: Any) -> dict[str, Any]:
    source = {"source": {"configMap": {"name": "data"}}}
    volume = {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}}
    fields = {
        "model": source,
        "tasks": source | {"format": "jsonl"},
        "trainer": {"image": IMAGE},
        "checkpoint": volume,
    }
    metadata = {"name": name}
    return {"apiVersion": "swerl.dev/v1alpha1", "kind": "SweRLJob", "metadata": metadata, "spec": fields | spec}


@pytest.fixture(scope="module")
def place(kubeconfig: str, namespace: str, crds: None) -> list[str]:
    """Options that choose the module's namespace, in which a claim and a ConfigMap exist."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "runs"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
    }
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}, "data": {"config.json": "{}"}}
    for body in (claim, data):
        kubectl(kubeconfig, "-n", namespace, "create", "-f", "-", stdin=json.dumps(body))
    return ["--kubeconfig", kubeconfig, "-n", namespace]


def swerl(*words: str, place: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "swerl_agent.cli", *words, *place]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def written(folder: Path, body: dict[str, Any]) -> str:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(body))
    return str(path)


def checked(kubeconfig: str, namespace: str, *texts: str) -> list[Validation]:
    async def check() -> list[Validation]:
        async with KubeClient.from_environment(kubeconfig) as client:
            return [await validate(parse_job(text, "job.yaml").job, client, namespace) for text in texts]

    return asyncio.run(check())


def test_every_invalid_example_is_refused_with_its_field(kubeconfig: str, namespace: str, place: list[str]) -> None:
    texts = [path.read_text() for path in BAD]
    assert len(texts) > 30
    for path, found in zip(BAD, checked(kubeconfig, namespace, *texts), strict=True):
        assert found.errors, path
        for fault in found.errors:
            assert fault.field.startswith(("spec", "metadata")) and fault.remedy, (path, fault)


def test_rule_between_fields_is_named_with_its_value(kubeconfig: str, namespace: str, place: list[str]) -> None:
    [found] = checked(kubeconfig, namespace, (ROOT / "examples/invalid/clip-range.yaml").read_text())
    assert [fault.as_text() for fault in found.errors if "clipLow" in fault.field] == [
        "spec.algorithm.clipLow 0.4: refused by the API server; algorithm.clipLow must not exceed algorithm.clipHigh"
    ]


def test_objects_that_do_not_exist_are_named_before_the_job_is_created(
    kubeconfig: str, namespace: str, place: list[str], tmp_path: Path
) -> None:
    volume = {"volume": {"persistentVolumeClaim": {"claimName": "run"}}}
    trainer = {"image": IMAGE, "envFromSecrets": ["hub"]}
    path = written(tmp_path, job("absent", checkpoint=volume, trainer=trainer))
    done = swerl("submit", path, "--no-images", place=place)
    assert done.returncode == 1, done.stderr
    claim = 'spec.checkpoint.volume.persistentVolumeClaim.claimName "run": no such PersistentVolumeClaim'
    assert claim in done.stdout and "name one of these: runs" in done.stdout
    assert 'spec.trainer.envFromSecrets "hub": no such Secret' in done.stdout
    assert "absent" not in kubectl(kubeconfig, "-n", namespace, "get", "swerl", "-o", "name")


def test_pods_that_fit_no_node_are_named_before_the_job_is_created(place: list[str], tmp_path: Path) -> None:
    trainer = {"image": IMAGE, "resources": {"requests": {"cpu": "4000"}}}
    done = swerl("validate", written(tmp_path, job("large", trainer=trainer)), "--no-images", place=place)
    assert done.returncode == 1, done
    assert "error: spec.trainer: 1 train Pod(s) with 4000 cpu" in done.stdout and "capacityCheck is" in done.stdout
    assert "even if empty (largest allocatable: " in done.stdout


def test_objects_beside_the_job_are_left_to_kubectl(place: list[str], tmp_path: Path) -> None:
    body = job("beside", checkpoint={"volume": {"persistentVolumeClaim": {"claimName": "in-the-file"}}})
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "in-the-file"}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all([claim, body]))
    note = f"PersistentVolumeClaim in-the-file: `swerl submit` creates the SweRLJob alone, `kubectl apply -f {path}`"
    done = swerl("validate", str(path), "--no-images", place=place)
    assert done.returncode == 0 and note in done.stdout, done
    done = swerl("submit", str(path), "--no-images", place=place)
    assert done.returncode == 1 and "no such PersistentVolumeClaim" in done.stdout and note in done.stdout, done


def test_job_without_an_operator_is_listed_and_explained(place: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, job("unseen", suspend=True))
    assert swerl("validate", path, "--no-images", place=place).returncode == 0
    done = swerl("submit", path, "--no-images", "-o", "json", place=place)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "unseen"
    again = swerl("submit", path, "--no-images", place=place)
    assert again.returncode == 1 and 'metadata.name "unseen"' in again.stdout, again
    listed = swerl("list", place=place)
    assert "unseen" in listed.stdout and "NotSeenByOperator" in listed.stdout, listed
    described = swerl("describe", "unseen", place=place)
    assert "no operator has seen this job" in described.stdout
    other = swerl("describe", "another", place=place)
    assert other.returncode == 2 and "there are: unseen" in other.stderr


def test_job_is_suspended_resumed_and_cancelled(
    kubeconfig: str, namespace: str, place: list[str], tmp_path: Path
) -> None:
    path = written(tmp_path, job("steered"))
    assert swerl("submit", path, "--no-images", place=place).returncode == 0
    for verb, suspended in (("suspend", "true"), ("resume", "false")):
        done = swerl(verb, "steered", place=place)
        assert done.returncode == 0, done.stderr
        spec = kubectl(kubeconfig, "-n", namespace, "get", "swerl", "steered", "-o", "jsonpath={.spec.suspend}")
        assert spec == suspended
        again = swerl(verb, "steered", place=place)
        assert again.returncode == 0 and "suspended; nothing changed" in again.stdout, again
    refused = swerl("cancel", "steered", place=place)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    done = swerl("cancel", "steered", "--yes", "--wait", "20", place=place)
    assert done.returncode == 0 and "is deleted" in done.stdout, done
    assert "steered" not in kubectl(kubeconfig, "-n", namespace, "get", "swerl", "-o", "name")


def test_logs_and_weights_are_read_from_the_folder_after_the_end(
    kubeconfig: str, namespace: str, place: list[str], tmp_path: Path
) -> None:
    assert swerl("submit", written(tmp_path, job("over", suspend=True)), "--no-images", place=place).returncode == 0
    script = (
        "mkdir -p /o/over/logs/2 /o/over/exports/step-0000007 /o/over/artifacts/step-0001/.gradings && cd /o/over"
        f" && echo '{json.dumps(STEP)}' >metrics.jsonl"
        f" && printf %s '{json.dumps(GRADING)}' >artifacts/step-0001/.gradings/t__gg1__i0__1790000000000000000.json"
        " && echo '{}' >exports/step-0000007/config.json && cd logs/2"
        " && echo step 1 >driver.log && echo serving >engine-0.1.log && echo begin took 2.0 s >rank-3.log"
    )
    mounts = [{"name": "o", "mountPath": "/o"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "writer"},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "o", "persistentVolumeClaim": {"claimName": "runs"}}],
            "containers": [{"name": "w", "image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": mounts}],
        },
    }
    scope = ["-n", namespace]
    kubectl(kubeconfig, *scope, "create", "-f", "-", stdin=json.dumps(pod))
    kubectl(kubeconfig, *scope, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/writer", "--timeout=100s")
    status = json.dumps({"status": {"phase": "Suspended", "attempt": 2}})
    kubectl(kubeconfig, *scope, "patch", "swerl", "over", "--subresource=status", "--type=merge", "-p", status)
    done = swerl("logs", "over", place=place)
    assert (done.returncode, done.stdout) == (0, "step 1\n"), done
    done = swerl("logs", "over", "--source", "all", place=place)
    assert set(done.stdout.splitlines()) == {"[driver] step 1", "[engine-0.1] serving", RANK_LINE}, done
    done = swerl("logs", "over", "--source", "rank", place=place)
    assert (done.returncode, done.stdout) == (0, f"{RANK_LINE}\n"), done
    done = swerl("metrics", "over", place=place)
    assert done.returncode == 0 and done.stdout.startswith("rollout/raw_reward: 0.25\n"), done
    missing = swerl("logs", "over", "--attempt", "1", place=place)
    assert missing.returncode == 2 and "there are logs of attempts 2" in missing.stderr, missing
    grading = swerl("logs", "over", "--grading", "g1/0", place=place)
    assert (grading.returncode, grading.stdout) == (0, "FAIL_TO_PASS 0/1\nE   assert 7 == 9\n1 failed\n"), grading
    assert "from /swerl/output/over/artifacts/step-0001/.gradings/t__gg1__i0__" in grading.stderr, grading
    absent = swerl("logs", "over", "--sandbox", "g1/0", place=place)
    assert absent.returncode == 2 and "/over has no episode 'g1/0'" in absent.stderr, absent
    exported = swerl("export", "over", str(tmp_path / "weights"), place=place)
    assert exported.returncode == 0 and (tmp_path / "weights/config.json").read_text() == "{}\n", exported
    assert "reader" not in kubectl(kubeconfig, *scope, "get", "pods", "-o", "name")


def test_blocked_job_is_explained_watched_to_its_end_and_retried(
    place: list[str], operator: Operator, tmp_path: Path, kubeconfig: str, namespace: str
) -> None:
    volume = {"volume": {"hostPath": {"path": "/var/lib/swerl/steer"}}}
    done = swerl("submit", written(tmp_path, job("blocked", checkpoint=volume)), "--no-images", place=place)
    assert done.returncode == 0, done
    end = time.monotonic() + 90
    while "is a hostPath" not in (text := swerl("describe", "blocked", place=place).stdout):
        assert time.monotonic() < end, text
    assert (
        text.splitlines()[0].startswith(f"blocked in {namespace}: Blocked, attempt 1") and "[HostPathRefused]" in text
    )
    deadline = json.dumps({"spec": {"activeDeadlineSeconds": 1}})
    kubectl(kubeconfig, "-n", namespace, "patch", "swerl", "blocked", "--type=merge", "-p", deadline)
    watched = swerl("watch", "blocked", "--interval", "0.5", place=place)
    assert watched.returncode == 1 and "Failed" in watched.stdout.splitlines()[-1], watched
    read = swerl("watch", "blocked", "-o", "json", place=place)
    assert read.returncode == 1 and [json.loads(line)["phase"] for line in read.stdout.splitlines()] == ["Failed"], read
    early = swerl("retry", "blocked", place=place)
    assert early.returncode == 2 and "exceeded spec.activeDeadlineSeconds 1" in early.stderr, early
    more = json.dumps({"spec": {"activeDeadlineSeconds": 3600}})
    kubectl(kubeconfig, "-n", namespace, "patch", "swerl", "blocked", "--type=merge", "-p", more)
    assert swerl("retry", "blocked", place=place).returncode == 0
    while "Blocked, attempt 2" not in (text := swerl("describe", "blocked", place=place).stdout):
        assert time.monotonic() < end + 60, text
    refused = swerl("retry", "blocked", place=place)
    assert refused.returncode == 2 and "only a Failed one is retried on request" in refused.stderr, refused
