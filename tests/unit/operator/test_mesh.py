"""No Pod of ours gets a container of a service mesh: each opts out by labels and annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from swerl_agent.doctor.probe import ProbeSettings, probe_pod
from swerl_agent.grading.manifests import grading_job
from swerl_agent.jobs.output import reader_pod
from swerl_api import GradingSpec, SandboxSpec, SweImageSetSpec
from swerl_api.pod_metadata import MESH_ANNOTATIONS, MESH_LABELS, without_mesh
from swerl_operator.evals import manifests
from swerl_operator.images.manifests import pull_pod
from swerl_operator.jobs.manifests import attempt_preflight, cluster_plan
from swerl_operator.ray.cluster import RayClusterPlan, ray_cluster
from swerl_operator.sandboxes.manifests import sandbox_pod
from swerl_operator.sandboxes.parsed import parse_group
from swerl_operator.sandboxes.settings import SandboxSettings

from .conftest import MakeAttempt, Spec
from .evals.conftest import MakeEvaluation, engine_spec, make_evaluation
from .evals.conftest import spec as evaluation_spec

Json = dict[str, Any]
KINDS = (
    "doctor", "evaluation engine", "evaluation head", "evaluation merge", "evaluation preflight", "evaluation shard",
    "grading", "image pull", "job engine", "job head", "job judge", "job preflight", "job train", "reader", "sandbox",
)  # fmt: skip

__all__ = ["engine_spec", "evaluation_spec", "make_evaluation"]


def _ray(owner: str, plan: RayClusterPlan) -> Iterator[tuple[str, Json]]:
    spec = ray_cluster(plan)["spec"]
    yield f"{owner} head", spec["headGroupSpec"]["template"]
    yield from ((f"{owner} {group['groupName']}", group["template"]) for group in spec["workerGroupSpecs"])


def _of_a_job(spec: Spec, make_attempt: MakeAttempt) -> Iterator[tuple[str, Json]]:
    attempt = make_attempt(judge={"model": {"configMap": {"name": "judge"}}})
    yield "job preflight", attempt_preflight(attempt)
    yield from _ray("job", cluster_plan(attempt))
    yield "reader", reader_pod({"metadata": {"name": "demo", "namespace": "ns"}, "spec": spec})


def _of_an_evaluation(spec: Json, make: MakeEvaluation) -> Iterator[tuple[str, Json]]:
    evaluation = make(spec | {"model": {"job": {"name": "demo"}}, "rollout": {"image": "engines:1"}})
    yield "evaluation preflight", manifests.evaluation_preflight(evaluation)
    yield from _ray("evaluation", manifests.engines_plan(evaluation))
    yield "evaluation shard", manifests.shards_job(evaluation)["spec"]["template"]
    yield "evaluation merge", manifests.merge_job(evaluation)["spec"]["template"]


def _others() -> Iterator[tuple[str, Json]]:
    metadata = {"name": "g", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-07-01T00:00:00Z"}
    group = parse_group({"metadata": metadata, "spec": {"image": "task:1", "replicas": 1}})
    yield "sandbox", sandbox_pod(group, 0, SandboxSettings())
    yield "image pull", pull_pod({"metadata": metadata}, SweImageSetSpec.model_validate({"images": ["a"]}), ("n", "a"))
    how: Json = {"settings": GradingSpec(), "sandbox": SandboxSpec(), "labels": {}, "owners": []}
    yield "grading", grading_job("g", "task:1", ["base"], ["g"], **how)["spec"]["template"]
    yield "doctor", probe_pod("probe", ProbeSettings("task:1"), {"a": "b"})


@pytest.fixture
def pods(
    spec: Spec, make_attempt: MakeAttempt, evaluation_spec: Json, make_evaluation: MakeEvaluation
) -> dict[str, Json]:
    """Pod or Pod template of each kind."""
    found = [*_of_a_job(spec, make_attempt), *_of_an_evaluation(evaluation_spec, make_evaluation), *_others()]
    return dict(found)


def test_all_kinds_of_pods_are_listed(pods: dict[str, Json]) -> None:
    assert sorted(pods) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_pod_opts_out_of_meshes(pods: dict[str, Json], kind: str) -> None:
    metadata = pods[kind]["metadata"]
    assert MESH_LABELS.items() <= metadata["labels"].items()
    assert MESH_ANNOTATIONS.items() <= metadata["annotations"].items()


def test_names_are_those_of_istio_linkerd_kuma_and_consul() -> None:
    opted_out = without_mesh({"name": "pod"})
    assert opted_out["labels"] == {"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"}
    annotations = {"linkerd.io/inject": "disabled", "consul.hashicorp.com/connect-inject": "false"}
    assert opted_out["annotations"] == annotations


def test_labels_and_annotations_of_the_pod_win() -> None:
    own = {"labels": {"sidecar.istio.io/inject": "true"}, "annotations": {"linkerd.io/inject": "enabled"}}
    opted_out = without_mesh(own)
    assert opted_out["labels"]["sidecar.istio.io/inject"] == "true"
    assert opted_out["annotations"]["linkerd.io/inject"] == "enabled"
