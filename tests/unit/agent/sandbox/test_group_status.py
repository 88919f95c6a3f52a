"""What a SweSandbox and its Pod say of a claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import EngineError
from swerl_agent.sandbox import SandboxError, SandboxLost
from swerl_agent.sandbox.group_status import lacks_capacity, start_seconds_by_part, terminal_error, waiting_message


def group(phase: str, *conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    metadata = {"namespace": "n", "name": "g0"}
    return {"metadata": metadata, "status": {"phase": phase, "conditions": list(conditions), **status}}


def finished(reason: str) -> dict[str, Any]:
    return group("Failed", {"type": "Finished", "reason": reason, "message": "so it is"})


def pod(reason: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/1 nodes"}
    return {"status": {"phase": "Pending", "conditions": [condition]}}


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("LeaseExpired", "lease_expired"),
        ("LifetimeExceeded", "lifetime_exceeded"),
        ("ImagePullFailed", "image_pull_failed"),
        ("Evicted", "pod_evicted"),
        ("Preempted", "pod_evicted"),
        ("StorageExceeded", "storage_exceeded"),
        ("OOMKilled", "oom_killed"),
        ("NodeLost", "node_lost"),
        ("Completed", "pod_gone"),
    ],
)
def test_ended_group_has_its_error_code(reason: str, code: str) -> None:
    error = terminal_error(finished(reason))
    assert error is not None and error.code == code
    assert f"SweSandbox n/g0 ended: {reason} so it is" in str(error)


@pytest.mark.parametrize("status", [None, group("Ready"), group("Pending")])
def test_running_group_has_no_error(status: dict[str, Any] | None) -> None:
    assert terminal_error(status) is None


@pytest.mark.parametrize(
    ("group_object", "pod_object", "waits_for_capacity"),
    [
        (group("Pending", {"type": "Admitted", "reason": "WaitingForCapacity"}), None, True),
        (group("Pending", {"type": "Admitted", "reason": "WaitingForIsolation"}), None, False),
        (group("Admitted", {"type": "Ready", "reason": "WaitingForCapacity"}), None, True),
        (group("Admitted"), pod("Unschedulable"), True),
        (group("Admitted"), pod("SchedulingGated"), True),
        (group("Admitted"), {"status": {"phase": "Pending"}}, False),
        (None, None, False),
    ],
)
def test_lack_of_capacity_is_distinguished(group_object: Any, pod_object: Any, waits_for_capacity: bool) -> None:
    assert lacks_capacity(group_object, pod_object) is waits_for_capacity


def test_waiting_message_names_the_obstacle() -> None:
    assert waiting_message("g0", None, None) == "the SweSandbox g0 does not exist"
    assert waiting_message("g0", group("Pending"), None) == "no Pod yet; SweSandbox g0 is Pending"
    refused = {"type": "Ready", "reason": "WaitingForCapacity", "message": "exceeded quota"}
    assert (
        waiting_message("g0", group("Admitted", refused), None)
        == "no Pod yet; SweSandbox g0 is Admitted: exceeded quota"
    )
    assert waiting_message("g0", group("Admitted"), pod("Unschedulable")) == "Unschedulable: 0/1 nodes"
    admitted = {"type": "Admitted", "reason": "SchedulingGated", "message": "they wait for LocalQueue q: 1 more needed"}
    gated = "SchedulingGated: they wait for LocalQueue q: 1 more needed"
    assert waiting_message("g0", group("Pending", admitted), pod("SchedulingGated")) == gated


def test_start_parts_are_empty_until_reported() -> None:
    assert start_seconds_by_part(None) == start_seconds_by_part(group("Pending")) == {}
    assert start_seconds_by_part(group("Ready", waits={"queueSeconds": 1.0, "pullSeconds": 4.0})) == {
        "queue": 1.0,
        "pull": 4.0,
    }


def kinds(parent: type[SandboxError]) -> Iterator[type[SandboxError]]:
    yield parent
    for kind in parent.__subclasses__():
        yield from kinds(kind)


def test_every_error_code_is_unique_and_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text()
    found = [kind for kind in kinds(SandboxError) if kind is not SandboxLost and kind.__module__.startswith("swerl_")]
    codes = [*(kind.code for kind in found), EngineError.code]
    assert len(set(codes)) == len(codes)
    assert not [code for code in codes if f"`{code}`" not in page]
