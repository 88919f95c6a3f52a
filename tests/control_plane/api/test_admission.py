"""What the API server accepts and refuses, asked of a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import ROOT, Kubectl

GOOD = [ROOT / "swerljob.yaml", *sorted((ROOT / "examples").glob("*.yaml"))]
RECIPES = sorted((ROOT / "examples/networks").glob("*.yaml"))
BAD = sorted((ROOT / "examples/invalid").glob("*.yaml"))
EXPECT = "# expect: "

IMMUTABLE: dict[str, Any] = {
    "model": {"dtype": "bfloat16"},
    "tasks": {"seed": 7},
    "algorithm.name": {"name": "gspo"},
    "algorithm.groupSize": {"groupSize": 4},
    "algorithm.promptsPerStep": {"promptsPerStep": 2},
    "algorithm.seed": {"seed": 7},
    "checkpoint.volume": {"volume": {"hostPath": {"path": "/elsewhere"}}},
    "colocate": False,
    "evaluation": {"samples": 9},
}
JUDGE = {"model": {"configMap": {"name": "judge"}}}
MUTABLE: dict[str, Any] = {
    "retries": 9,
    "suspend": True,
    "algorithm": {"steps": 99},
    "sandbox": {"maxConcurrent": 17},
    "checkpoint": {"every": 1, "resume": 40, "export": {"every": 20}, "mirror": "s3://bucket/runs"},
}
EVALUATION_IMMUTABLE: dict[str, Any] = {
    "model": {"name": "another"},
    "tasks": {"slice": "0:1"},
    "agent": {"stepLimit": 3},
    "samples": 9,
    "temperature": 1,
    "shards": 3,
    "output": {"path": "elsewhere"},
}
EVALUATION_MUTABLE: dict[str, Any] = {"suspend": False, "retries": 9, "parallelism": 1, "image": "another:1"}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_valid_examples_are_accepted(kubectl: Kubectl, namespace: str, path: Path) -> None:
    done = kubectl("apply", "--dry-run=server", "-n", namespace, "-f", str(path))
    assert done.returncode == 0, done.stderr


def test_every_object_of_the_example_folder_is_accepted(kubectl: Kubectl, namespace: str) -> None:
    folder = ROOT / "examples/swe-gym-qwen3-4b"
    done = kubectl("kustomize", str(folder))
    assert done.returncode == 0, done.stderr
    texts = (done.stdout, (folder / "swerljob.yaml").read_text())
    bodies = [body for text in texts for body in yaml.safe_load_all(text)]
    assert {body["kind"] for body in bodies} >= {"Namespace", "PersistentVolumeClaim", "Job", "SweImageSet", "SweRLJob"}
    for body in bodies:
        if body["kind"] != "Namespace":
            body["metadata"]["namespace"] = namespace  # its own does not exist here
        done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
        assert done.returncode == 0, f"{body['kind']}: {done.stderr}"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_job_with_a_recipe_for_a_network_is_accepted(kubectl: Kubectl, namespace: str, recipe: Path) -> None:
    job = str(ROOT / "examples/swerljob-8x8-32b.yaml")
    patch = ("patch", "--local", "-f", job, "--type=merge", f"--patch-file={recipe}", "-o", "yaml")
    patched = kubectl(*patch)
    assert patched.returncode == 0, patched.stderr
    done = kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", stdin=patched.stdout)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_invalid_examples_are_refused_with_their_message(kubectl: Kubectl, namespace: str, path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith(EXPECT), f"{path} does not state what it expects"
    done = kubectl("apply", "--dry-run=server", "-n", namespace, "-f", str(path))
    assert done.returncode != 0 and first.removeprefix(EXPECT) in done.stderr, done.stderr


@pytest.fixture(scope="module")
def job(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """The name of a stored, suspended job."""
    documents = yaml.safe_load_all((ROOT / "swerljob.yaml").read_text())
    body = next(document for document in documents if document["kind"] == "SweRLJob")
    body["spec"]["suspend"] = True
    done = kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    assert done.returncode == 0, done.stderr
    yield body["metadata"]["name"]
    kubectl("delete", "swerl", "-n", namespace, body["metadata"]["name"])


@pytest.fixture(scope="module")
def evaluation(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """The name of a stored, suspended evaluation."""
    body = yaml.safe_load((ROOT / "examples/sweeval.yaml").read_text())
    body["spec"]["suspend"] = True
    done = kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    assert done.returncode == 0, done.stderr
    yield body["metadata"]["name"]
    kubectl("delete", "sweeval", "-n", namespace, body["metadata"]["name"])


def _patch(
    kubectl: Kubectl, namespace: str, name: str, field: str, change: Any, kind: str = "swerl"
) -> tuple[int, str]:
    patch = json.dumps({"spec": {field.split(".")[0]: change}})
    done = kubectl("patch", kind, name, "-n", namespace, "--type=merge", "--dry-run=server", "-p", patch)
    return done.returncode, done.stderr


@pytest.mark.parametrize("field", IMMUTABLE)
def test_immutable_field_is_refused_by_name(kubectl: Kubectl, namespace: str, job: str, field: str) -> None:
    code, error = _patch(kubectl, namespace, job, field, IMMUTABLE[field])
    assert code != 0 and f"{field} cannot be changed" in error, error


@pytest.mark.parametrize(("field", "value"), [("judge", JUDGE), ("queueName", "another"), ("evaluation", None)])
def test_immutable_section_cannot_be_added_or_removed(
    kubectl: Kubectl, namespace: str, job: str, field: str, value: Any
) -> None:
    code, error = _patch(kubectl, namespace, job, field, value)
    assert code != 0 and f"{field} cannot be added or removed" in error, error


@pytest.mark.parametrize("field", MUTABLE)
def test_mutable_field_is_accepted(kubectl: Kubectl, namespace: str, job: str, field: str) -> None:
    code, error = _patch(kubectl, namespace, job, field, MUTABLE[field])
    assert code == 0, error


@pytest.mark.parametrize("field", EVALUATION_IMMUTABLE)
def test_evaluation_fields_that_decide_results_are_immutable(
    kubectl: Kubectl, namespace: str, evaluation: str, field: str
) -> None:
    code, error = _patch(kubectl, namespace, evaluation, field, EVALUATION_IMMUTABLE[field], "sweeval")
    assert code != 0 and f"{field} cannot be changed" in error, error


@pytest.mark.parametrize("field", EVALUATION_MUTABLE)
def test_how_an_evaluation_runs_may_change(kubectl: Kubectl, namespace: str, evaluation: str, field: str) -> None:
    code, error = _patch(kubectl, namespace, evaluation, field, EVALUATION_MUTABLE[field], "sweeval")
    assert code == 0, error


def test_evaluation_is_listed(kubectl: Kubectl, namespace: str, evaluation: str) -> None:
    listed = kubectl("get", "sweeval", "-n", namespace)
    assert listed.returncode == 0 and f"\n{evaluation} " in listed.stdout, listed


def test_defaults_are_stored(kubectl: Kubectl, namespace: str, job: str) -> None:
    spec = json.loads(kubectl("get", "swerl", job, "-n", namespace, "-o", "json").stdout)["spec"]
    assert (spec["algorithm"]["clipHigh"], spec["agent"]["observation"]["maxChars"]) == (0.28, 10_000)


def test_columns_are_as_documented(kubectl: Kubectl, namespace: str, job: str) -> None:
    status: dict[str, Any] = {
        "phase": "Training",
        "progress": "3/40",
        "rewardMean": 0.25,
        "resolvedRate": 0.5,
        "eta": "12m",
    }
    status |= {"tokensPerSecond": 431.5, "grading": {"pending": 7}}
    patch = json.dumps({"status": status | {"sandboxes": {"pending": 2, "ready": 6, "summary": "2/6"}}})
    kubectl("patch", "swerl", job, "-n", namespace, "--type=merge", "--subresource=status", "-p", patch)
    header, row = kubectl("get", "swerl", job, "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "PHASE", "STEP", "REWARD", "RESOLVED", "SANDBOXES", "ETA", "REASON", "AGE"]
    assert row.split()[:-1] == [job, "Training", "3/40", "0.25", "0.5", "2/6", "12m"]
    header, row = kubectl("get", "swerl", job, "-n", namespace, "-o", "wide").stdout.splitlines()
    assert header.split()[9:] == ["TOKENS/S", "GRADING", "ATTEMPT", "RAYCLUSTER"]
    assert row.split()[8:] == ["431.5", "7"]


def test_sandbox_group_cannot_change(kubectl: Kubectl, namespace: str) -> None:
    body = yaml.safe_load((ROOT / "examples/swesandbox.yaml").read_text())
    body["spec"]["owner"] = "nobody"
    kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    change = ("patch", "swesb", body["metadata"]["name"], "-n", namespace, "--type=merge", "--dry-run=server")
    done = kubectl(*change, "-p", '{"spec":{"replicas":2}}')
    kubectl("delete", "swesb", body["metadata"]["name"], "-n", namespace)
    assert done.returncode != 0 and "spec cannot be changed" in done.stderr, done.stderr
