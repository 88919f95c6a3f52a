"""What a SweSandbox and its Pod say of a claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import EngineError
from swerl_agent.sandbox import SandboxError, SandboxLost
from swerl_agent.sandbox.group_status import ending, lacks_room, start_waits, waits_for


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
        ("OOMKilled", "oom_killed"),
        ("NodeLost", "node_lost"),
        ("Completed", "pod_gone"),
    ],
)
def test_the_end_of_a_group_is_one_word_of_the_taxonomy(reason: str, code: str) -> None:
    error = ending(finished(reason))
    assert error is not None and error.code == code
    assert f"SweSandbox n/g0 ended: {reason} so it is" in str(error)


@pytest.mark.parametrize("seen", [None, group("Ready"), group("Pending")])
def test_a_group_that_lives_has_not_ended(seen: dict[str, Any] | None) -> None:
    assert ending(seen) is None


@pytest.mark.parametrize(
    ("seen", "of", "lacking"),
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
def test_room_that_lacks_is_told_from_other_waiting(seen: Any, of: Any, lacking: bool) -> None:
    assert lacks_room(seen, of) is lacking


def test_what_is_waited_for_is_said() -> None:
    assert waits_for("g0", None, None) == "the SweSandbox g0 does not exist"
    assert waits_for("g0", group("Pending"), None) == "no Pod yet; SweSandbox g0 is Pending"
    refused = {"type": "Ready", "reason": "WaitingForCapacity", "message": "exceeded quota"}
    assert waits_for("g0", group("Admitted", refused), None) == "no Pod yet; SweSandbox g0 is Admitted: exceeded quota"
    assert waits_for("g0", group("Admitted"), pod("Unschedulable")) == "Unschedulable: 0/1 nodes"
    held = {"type": "Admitted", "reason": "SchedulingGated", "message": "they wait for LocalQueue q: 1 more needed"}
    gated = "SchedulingGated: they wait for LocalQueue q: 1 more needed"
    assert waits_for("g0", group("Pending", held), pod("SchedulingGated")) == gated


def test_the_parts_of_a_start_are_known_once_they_are_told() -> None:
    assert start_waits(None) == start_waits(group("Pending")) == {}
    assert start_waits(group("Ready", waits={"queueSeconds": 1.0, "pullSeconds": 4.0})) == {"queue": 1.0, "pull": 4.0}


def kinds(of: type[SandboxError]) -> Iterator[type[SandboxError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def test_every_error_has_a_code_of_its_own_that_is_in_the_docs() -> None:
    page = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text()
    found = [kind for kind in kinds(SandboxError) if kind is not SandboxLost and kind.__module__.startswith("swerl_")]
    codes = [kind.code for kind in (*found, EngineError)]
    assert len(set(codes)) == len(codes)
    assert not [code for code in codes if f"`{code}`" not in page]
