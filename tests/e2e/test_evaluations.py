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


def manifest(product_namespace: ProductNamespace, name: str, model: dict[str, Any]) -> dict[str, Any]:
    """examples/sweeval-checkpoint.yaml for another model, short, with the images that were built."""
    body: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "sweeval-checkpoint.yaml").read_text())
    body["metadata"] = {"name": name, "namespace": product_namespace.namespace}
    spec = body["spec"]
    spec["model"] = model
    spec["tasks"]["source"]["image"]["reference"] = product_namespace.images["demo-data"]
    spec["tasks"]["slice"] = f"0:{TASKS}"
    spec["image"] = spec["rollout"]["image"] = product_namespace.images["trainer"]
    spec["samples"] = 1
    return body


@pytest.fixture(scope="module")
def trained(product_namespace: ProductNamespace) -> str:
    """A SweRLJob that learned from demonstrations in two steps and wrote the checkpoint."""
    sft = {"data": "demonstrations.jsonl", "steps": 2, "batchSize": 8, "lr": 1e-3}
    name = product_namespace.apply(product_namespace.manifest("trained", {"name": "sft", "steps": 2, "sft": sft}))
    product_namespace.finish(name, 600)
    return name


def test_supervised_job_lowers_its_loss(product_namespace: ProductNamespace, trained: str) -> None:
    first, second = (row["train/loss"] for row in product_namespace.rows("supervised"))
    assert second < first


def results_of(product_namespace: ProductNamespace, name: str) -> list[Json]:
    """Results of the evaluation, which ends with all of them and leaves no object behind."""
    status = product_namespace.finish(name, 900, KIND)
    assert (status["total"], status["done"], status["errors"]) == (TASKS, TASKS, 0), status
    folder = product_namespace.output / name
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["total"], summary["resolved"]) == (TASKS, status["resolved"])
    assert len(json.loads((folder / "preds.json").read_text())) == TASKS
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    kinds = "pods,jobs,swesandboxes,rayclusters,leases"
    product_namespace.wait("clean-up", lambda: not product_namespace.objects(f"swerl.dev/evaluation={name}", kinds), 60)
    return results


def test_models_folder_is_served_and_evaluated(product_namespace: ProductNamespace) -> None:
    source = {"image": {"reference": product_namespace.images["demo-data"], "path": "/data/model"}}
    product_namespace.cluster.apply(manifest(product_namespace, "base", {"source": source, "dtype": "float32"}))
    results = results_of(product_namespace, "base")
    assert all((product_namespace.output / "base" / result["run_dir"] / "traj.json").is_file() for result in results)


def test_jobs_newest_checkpoint_is_served_and_evaluated(product_namespace: ProductNamespace, trained: str) -> None:
    product_namespace.cluster.apply(manifest(product_namespace, "tuned", {"job": {"name": trained}}))
    results = results_of(product_namespace, "tuned")
    assert all((product_namespace.output / "tuned" / result["run_dir"] / "traj.json").is_file() for result in results)
    assert product_namespace.status("tuned", KIND)["checkpoint"] == product_namespace.status(trained)["lastCheckpoint"]
    (served,) = (product_namespace.output / "tuned").glob("model-step-*")
    assert (served / "config.json").is_file() and list(served.glob("*.safetensors"))
