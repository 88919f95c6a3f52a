"""Whether the cluster's nodes could hold a job, with the messages of the operator's own check.

Guarantees: nothing is created. Objects that this user may not read are reported, and are never a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from swerl_api import GradingSpec, SandboxSpec, SweRLJobSpec
from swerl_kube import Json, KubeClient, KubeError
from swerl_plan.capacity import (
    CHECKS,
    Shortage,
    cluster_shortage,
    nodes_are_final,
    pod_shortage,
    refusal_words,
    waiting_words,
)
from swerl_plan.pods import grading_pod_size, ray_pod_groups, sandbox_pod_size, with_runtime_class

from swerl_agent.doctor.control_plane import option_of, served_namespaces

from .faults import Fault

OPERATOR_LABELS = "app.kubernetes.io/name=swe-rl"
DEFAULT_CHECK = "auto"  # of the chart


async def capacity_faults(
    client: KubeClient, namespace: str, spec: SweRLJobSpec, nodes: Sequence[Json] | None
) -> tuple[list[Fault], list[str]]:
    """What of the job fits no node, and what was not checked; `nodes`: None where they may not be listed."""
    if nodes is None:
        return [], ["capacity: you may not list nodes; the operator checks it before it creates Pods"]
    check, unchecked = await _operator_check(client, namespace)
    if check == "off":
        return [], [*unchecked, "capacity: the operator's capacityCheck is 'off'"]
    name = spec.sandbox.runtime_class_name
    try:
        runtime = await client.find("node.k8s.io/v1", "runtimeclasses", None, name) if name else None
    except KubeError as error:
        return [], [*unchecked, f"capacity: RuntimeClass {name!r} cannot be read: {error}"]
    return shortage_faults(spec, nodes, check, runtime), unchecked


def shortage_faults(
    spec: SweRLJobSpec, nodes: Sequence[Json], check: str, runtime: Mapping[str, Any] | None = None
) -> list[Fault]:
    """A fault for each kind of Pod that `nodes`, all empty, could not hold. Pure.

    `check`: the operator's capacityCheck; a shortage that it lets wait for more nodes is a warning."""
    final = nodes_are_final(check, nodes)
    words = refusal_words if final else waiting_words
    return [
        Fault(each.field, "", each.problem, words(check, each.remedy), "error" if final else "warning")
        for each in _shortages(spec, nodes, runtime)
    ]


def _shortages(spec: SweRLJobSpec, nodes: Sequence[Json], runtime: Mapping[str, Any] | None) -> Iterator[Shortage]:
    found = [cluster_shortage(ray_pod_groups(spec), nodes)]
    for kind, pod in _episode_pods(spec.sandbox, spec.grading):
        found.append(pod_shortage(kind, with_runtime_class(pod, runtime), nodes))
    return (shortage for shortage in found if shortage is not None)


def _episode_pods(sandbox: SandboxSpec, grading: GradingSpec) -> Iterable[tuple[str, Json]]:
    return ("sandbox", sandbox_pod_size(sandbox)), ("grading", grading_pod_size(sandbox, grading))


async def _operator_check(client: KubeClient, namespace: str) -> tuple[str, list[str]]:
    """The capacityCheck of the namespace's operator, and a note where it cannot be known."""
    try:
        deployments = await client.list("apps/v1", "deployments", None, labels=OPERATOR_LABELS)
    except KubeError:
        note = f"the operator's capacityCheck: you may not list Deployments; it is taken for {DEFAULT_CHECK!r}"
        return DEFAULT_CHECK, [note]
    return capacity_check_of(deployments, namespace), []


def capacity_check_of(deployments: Iterable[Json], namespace: str) -> str:
    """The option of the operator that serves `namespace`, else its default."""
    serving = [one for one in deployments if (served := served_namespaces(one)) is None or namespace in served]
    given = [option_of(deployment, "capacity-check") for deployment in serving]
    return next((check for check in given if check in CHECKS), DEFAULT_CHECK)
