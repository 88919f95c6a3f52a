"""The recipes of examples/networks: merge patches that give an example job a fast network between its GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_api import SweRLJobSpec
from swerl_operator.jobs.attempt import Attempt
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.ray.cluster import ray_cluster
from swerl_plan import known_models, refusal

from .layouts import MACHINES
from .pages import ROOT

Json = dict[str, Any]
RECIPES = sorted((ROOT / "examples/networks").glob("*.yaml"))
JOB = ROOT / "examples/swerljob-8x8-32b.yaml"
DEVICES = {
    "infiniband": {"train": ("rdma/hca_shared_devices_a", 1), "engine": ("rdma/hca_shared_devices_a", 1)},
    "roce": {"train": ("nvidia.com/rdma-roce", 8), "engine": ("nvidia.com/rdma-roce", 4)},
    "efa": {"train": ("vpc.amazonaws.com/efa", 32), "engine": ("vpc.amazonaws.com/efa", 16)},
}
INTERFACES = {
    "roce": ("k8s.v1.cni.cncf.io/networks", "roce-"),
    "gke-rdma": ("networking.gke.io/interfaces", '"rdma-'),
    "gke-tcpxo": ("networking.gke.io/interfaces", '"vpc'),
}


def merged(value: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    base = value if isinstance(value, dict) else {}
    return {**base, **{key: merged(base.get(key), inner) for key, inner in patch.items()}}


def patched(recipe: Path) -> SweRLJobSpec:
    job = merged(yaml.safe_load(JOB.read_text()), yaml.safe_load(recipe.read_text()))
    return SweRLJobSpec.model_validate(job["spec"])


def pods(recipe: Path) -> dict[str, Json]:
    """Pod template of each group with GPUs."""
    groups = ray_cluster(cluster_plan(Attempt("ns", "demo", "uid", 1, patched(recipe))))["spec"]["workerGroupSpecs"]
    return {group["groupName"]: group["template"] for group in groups}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_patched_job_still_fits(recipe: Path) -> None:
    spec = patched(recipe)
    assert refusal(spec, known_models(spec), MACHINES) is None


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_ranks_and_engines_reach_the_same_network(recipe: Path) -> None:
    found = pods(recipe)
    assert found.keys() == {"train", "engine"}
    environments = []
    for group, template in found.items():
        (container,) = template["spec"]["containers"]
        if recipe.stem in DEVICES:
            device, number = DEVICES[recipe.stem][group]
            assert container["resources"]["limits"][device] == number
            assert container["securityContext"]["capabilities"].get("add") == ["IPC_LOCK"], "RDMA locks memory"
        if recipe.stem in INTERFACES:
            annotation, word = INTERFACES[recipe.stem]
            gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
            assert template["metadata"]["annotations"][annotation].count(word) == gpus, "one interface for each GPU"
        environments.append({e["name"]: e["value"] for e in container["env"] if e["name"].startswith(("NCCL", "FI_"))})
    assert environments[0] == environments[1] != {}, "NCCL connects ranks and engines only with equal settings"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_says_where_it_runs_and_what_an_administrator_allows(recipe: Path) -> None:
    text = recipe.read_text()
    assert text.startswith("# ")
    assert ("hostPath:" in text or "capabilities:" in text) == ("hostPathVolumes=allow" in text)


def test_sidecar_of_tcpxo_has_its_devices_and_rights() -> None:
    for template in pods(ROOT / "examples/networks/gke-tcpxo.yaml").values():
        sidecar = next(one for one in template["spec"]["initContainers"] if one["name"] == "tcpxo-daemon")
        assert f"devices.gke.io/container.{sidecar['name']}" in template["metadata"]["annotations"]
        assert sidecar["restartPolicy"] == "Always"
        assert sidecar["securityContext"]["capabilities"]["add"] == ["NET_ADMIN", "NET_BIND_SERVICE"]
