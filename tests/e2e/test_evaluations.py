"""SweEvals with engines on Ray, on the real cluster: a model's folder, and a checkpoint of a supervised SweRLJob."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from demo.cluster import ROOT
from tests.e2e.product_namespace import ProductNamespace

Json = dict[str, Any]
KIND = "sweeval"
TASKS = 2


def manifest(world: ProductNamespace, name: str, model: dict[str, Any]) -> dict[str, Any]:
    """examples/sweeval-checkpoint.yaml for another model, short, with the images that were built."""
    body: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "sweeval-checkpoint.yaml").read_text())
    body["metadata"] = {"name": name, "namespace": world.namespace}
    spec = body["spec"]
    spec["model"] = model
    spec["tasks"]["source"]["image"]["reference"] = world.images["demo-data"]
    spec["tasks"]["slice"] = f"0:{TASKS}"
    spec["image"] = spec["rollout"]["image"] = world.images["trainer"]
    spec["samples"] = 1
    return body


@pytest.fixture(scope="module")
def trained(world: ProductNamespace) -> str:
    """A SweRLJob that learned from demonstrations in two steps and wrote the checkpoint."""
    sft = {"data": "demonstrations.jsonl", "steps": 2, "batchSize": 8, "lr": 1e-3}
    name = world.apply(world.manifest("trained", {"name": "sft", "steps": 2, "sft": sft}))
    world.finish(name, 600)
    return name


def test_a_supervised_job_lowers_its_loss(world: ProductNamespace, trained: str) -> None:
    first, second = (row["train/loss"] for row in world.rows("supervised"))
    assert second < first


def results_of(world: ProductNamespace, name: str) -> list[Json]:
    """Results of the evaluation, which ends with all of them and leaves no object behind."""
    status = world.finish(name, 900, KIND)
    assert (status["total"], status["done"], status["errors"]) == (TASKS, TASKS, 0), status
    folder = world.output / name
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["total"], summary["resolved"]) == (TASKS, status["resolved"])
    assert len(json.loads((folder / "preds.json").read_text())) == TASKS
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    kinds = "pods,jobs,swesandboxes,rayclusters,leases"
    world.wait("clean-up", lambda: not world.objects(f"swerl.dev/evaluation={name}", kinds), 60)
    return results


def test_a_models_folder_is_served_and_evaluated(world: ProductNamespace) -> None:
    source = {"image": {"reference": world.images["demo-data"], "path": "/data/model"}}
    world.cluster.apply(manifest(world, "base", {"source": source, "dtype": "float32"}))
    results = results_of(world, "base")
    assert all((world.output / "base" / result["run_dir"] / "traj.json").is_file() for result in results)


def test_a_jobs_newest_checkpoint_is_served_and_evaluated(world: ProductNamespace, trained: str) -> None:
    world.cluster.apply(manifest(world, "tuned", {"job": {"name": trained}}))
    results = results_of(world, "tuned")
    assert all((world.output / "tuned" / result["run_dir"] / "traj.json").is_file() for result in results)
    assert world.status("tuned", KIND)["checkpoint"] == world.status(trained)["lastCheckpoint"]
    (served,) = (world.output / "tuned").glob("model-step-*")
    assert (served / "config.json").is_file() and list(served.glob("*.safetensors"))
