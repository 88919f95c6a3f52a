"""A group's name in Kueue, and Kueue's message about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from swerl_kube import ApiError, Forbidden, NotFound
from swerl_operator.sandboxes.decide import GroupDecision
from swerl_operator.sandboxes.kueue import pod_group, queue_message
from swerl_operator.sandboxes.parsed import ParsedGroup, ParsedPod, PodStage
from swerl_operator.sandboxes.status import desired_status
from swerl_operator.sandboxes.store import GroupRecord

GATES = {"reason": "SchedulingGated", "message": "kueue.x-k8s.io/admission"}
NEW, OLD = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"


def workload(*conditions: tuple[str, str, str]) -> dict[str, Any]:
    entries = [{"type": kind, "status": status, "message": message} for kind, status, message in conditions]
    return {"status": {"conditions": entries}}


class Kueue:
    """Answers by API version; remembers what was asked."""

    def __init__(self, **answers: list[dict[str, Any]] | ApiError) -> None:
        self._answers = {NEW: answers.get("new", []), OLD: answers.get("old", [])}
        self.requests: list[tuple[str, str]] = []

    async def list(
        self, api_version: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[dict[str, Any]]:
        assert (resource, namespace) == ("workloads", "ns")
        self.requests.append((api_version, fields or labels))
        answer = self._answers[api_version]
        if isinstance(answer, ApiError):
            raise answer
        return answer


@pytest.fixture
def gated(record: Callable[..., GroupRecord], pod: Callable[..., ParsedPod]) -> Callable[..., GroupRecord]:
    return lambda **spec: record(pod(0, PodStage.WAITING, **GATES), spec=spec)


def test_groups_of_one_name_have_different_pod_groups_that_fit_a_label(group: Callable[..., ParsedGroup]) -> None:
    first = replace(group("a" * 57), uid="01234567-89ab")
    second = replace(first, uid="76543210-89ab")
    assert pod_group(first) != pod_group(second)
    assert len(pod_group(first)) == 63 and pod_group(first).endswith("-01234567")
    assert pod_group(replace(first, key=("ns", "g.4"))) == "swesb-g.4-01234567"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"new": [workload(("QuotaReserved", "False", "1 more needed"))]}, "1 more needed"),
        ({"new": NotFound("GET", 404, "", ""), "old": [workload(("QuotaReserved", "False", "full"))]}, "full"),
        ({"new": [workload(("QuotaReserved", "True", ""), ("Admitted", "False", "checks pend"))]}, "checks pend"),
        ({"new": [workload()]}, ""),
        ({"new": []}, ""),
        ({"new": NotFound("GET", 404, "", ""), "old": NotFound("GET", 404, "", "")}, ""),
        ({"new": Forbidden("GET", 403, "", "")}, ""),
    ],
)
async def test_queued_group_reports_the_queues_message(
    gated: Callable[..., GroupRecord], answers: dict[str, Any], message: str
) -> None:
    group = gated()
    group.state.queue_message = await queue_message(group, Kueue(**answers))
    assert group.state.queue_message == message
    admitted = desired_status(group, GroupDecision(), 1_000_000.0)["conditions"][0]
    assert admitted["reason"] == "SchedulingGated"
    assert admitted["message"].endswith(f"LocalQueue q: {message}" if message else "LocalQueue q")


async def test_groups_workload_is_found_by_name_and_a_single_pods_by_owner(
    gated: Callable[..., GroupRecord],
) -> None:
    api = Kueue()
    await queue_message(gated(), api)
    await queue_message(gated(replicas=1), api)
    assert api.requests == [(NEW, "metadata.name=swesb-g-uid-g"), (NEW, "kueue.x-k8s.io/job-uid=pod-g-0")]


async def test_pods_that_no_queue_holds_cost_no_request(
    record: Callable[..., GroupRecord], pod: Callable[..., ParsedPod], gated: Callable[..., GroupRecord]
) -> None:
    api = Kueue()
    other_gate = {"reason": "SchedulingGated", "message": "example.org/gate"}
    elsewhere = gated()
    elsewhere.group = replace(elsewhere.existing_group, labels={})
    for observed in (record(pod()), record(), record(pod(0, PodStage.WAITING, **other_gate)), elsewhere):
        assert await queue_message(observed, api) == ""
    assert not api.requests
