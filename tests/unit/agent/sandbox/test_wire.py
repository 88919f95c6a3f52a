"""Pure parts of a session: protocol reader, shell text, the error of a lost Pod."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.sandbox import (
    CommandResult,
    ContainerExited,
    Evicted,
    LifetimeExceeded,
    NodeLost,
    OOMKilled,
    PodGone,
    PodReplaced,
    StorageExceeded,
)
from swerl_agent.sandbox.pod import loss_error, ready, waiting_for
from swerl_agent.sandbox.wire import OutputLimit, ProtocolError, Reader, Reply, command_text

Json = dict[str, Any]
LIMIT = OutputLimit(3, 2)


def test_result_may_be_split_at_any_byte() -> None:
    stream = b"tok result c1 7 0 4 9 5.25 6.50\nabcdABCHI" + b"tok result c2 0 1 0 0 0 0\n"
    for size in range(1, len(stream)):
        reader, results = Reader("tok"), []
        for start in range(0, len(stream), size):
            reader.feed(stream[start : start + size])
            while (result := reader.take(LIMIT)) is not None:
                results.append(result)
        first, second = results
        assert (first.id, first.exit_code, first.stdout, first.stderr) == ("c1", 7, b"abcd", b"ABCHI")
        assert (first.stderr_bytes, second.timed_out) == (9, True)
        assert (first.run_seconds, second.run_seconds) == (1.25, None)


def test_output_that_resembles_a_result_is_output() -> None:
    reader = Reader("tok")
    reader.feed(b"tok result c1 0 0 5 0 1.00 1.01\ntok r")
    result = reader.take(LIMIT)
    assert result is not None and result.stdout == b"tok r"


@pytest.mark.parametrize(
    "noise",
    [
        b"noise\n",
        b"other result c1 0 0 0 0 0 0\n",
        b"tok result c1 x 0 0 0 0 0\n",
        b"tok result c1 0 0 -5 0 1 2\n",
        b"tok result c1 0 0 0 -1 1 2\n",
        b"tok result c1 0 0 0 0 nan 2\n",
        b"tok result c1 0 0 0 0 1 inf\n",
        b"tok result \xff 0 0 0 0 1 2\n",
        b"x" * 5000,
    ],
)
def test_other_bytes_are_a_protocol_error(noise: bytes) -> None:
    reader = Reader("tok")
    reader.feed(noise)
    with pytest.raises(ProtocolError):
        reader.take(LIMIT)


def test_replies_are_found_among_shell_messages() -> None:
    reader = Reader("tok")
    assert reader.feed_control(b"sh: warning\ntok hello fre") == []
    assert reader.feed_control(b"sh\ntok pong\n") == [Reply("hello", "fresh"), Reply("pong", "")]


def test_request_is_one_line_and_checks_its_names() -> None:
    text = command_text("a\nb 'c'", cwd="/x\ny", env={"A": "\n"}, login=True)
    assert "\n" not in text
    with pytest.raises(ValueError, match="environment variable"):
        command_text("true", cwd=None, env={"A B": ""}, login=True)


def test_gap_of_a_truncated_output_is_marked() -> None:
    result = CommandResult("c", 0, b"abcde", b"", 12, 0, False, 0.1)
    assert result.truncated and result.output == "abc\n[7 bytes left out]\nde"


def pod(phase: str = "Running", *, uid: str = "u", deleted: bool = False, **status: Any) -> Json:
    metadata: Json = {"name": "p", "namespace": "n", "uid": uid}
    if deleted:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def disruption(reason: str, status: str = "True", kind: str = "DisruptionTarget") -> list[Json]:
    return [{"type": kind, "status": status, "reason": reason}]


def container(restarts: int = 0, **state: Any) -> list[Json]:
    return [{"name": "sandbox", "restartCount": restarts, "state": state}]


def exited(finished: str) -> list[Json]:
    return container(terminated={"reason": "Error", "exitCode": 143, "finishedAt": finished})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (pod(containerStatuses=container(running={})), None),
        (pod("Pending"), None),
        (pod(uid="other"), PodReplaced),
        (pod(containerStatuses=container(1, running={})), PodReplaced),
        (pod(deleted=True), PodGone),
        (pod(deleted=True, conditions=disruption("EvictionByEvictionAPI")), Evicted),
        (pod(deleted=True, conditions=disruption("DeletionByTaintManager")), NodeLost),
        (pod(deleted=True, conditions=disruption("EvictionByEvictionAPI", "False")), PodGone),
        (pod("Succeeded", deleted=True, conditions=disruption("PreemptionByScheduler")), Evicted),
        (pod(deleted=True, conditions=disruption("WorkloadEvictedDueToPreempted", kind="TerminationTarget")), Evicted),
        (pod("Succeeded"), PodGone),
        (pod("Failed", reason="Evicted", message="disk pressure"), Evicted),
        (pod("Failed", reason="DeadlineExceeded"), LifetimeExceeded),
        (pod("Failed", reason="NodeShutdown"), NodeLost),
        (pod("Unknown"), NodeLost),
        (pod("Failed", containerStatuses=container(terminated={"reason": "OOMKilled"})), OOMKilled),
        (pod(containerStatuses=container(terminated={"reason": "Error", "exitCode": 137})), ContainerExited),
        (pod(containerStatuses=container(terminated={"reason": "ContainerStatusUnknown"})), PodGone),
        (pod(deleted=True, containerStatuses=exited("2025-12-31T23:59:28Z")), ContainerExited),
        (pod(deleted=True, containerStatuses=exited("2025-12-31T23:59:30Z")), PodGone),
        (
            pod(
                "Failed",
                reason="Evicted",
                message="Pod ephemeral local storage usage exceeds the total limit of containers 16Mi.",
            ),
            StorageExceeded,
        ),
        (
            pod(
                "Failed",
                reason="Evicted",
                message='Container sandbox exceeded its local ephemeral storage limit "16Mi".',
            ),
            StorageExceeded,
        ),
        (pod("Failed", reason="Evicted", message="The node was low on resource: ephemeral-storage."), Evicted),
    ],
)
def test_lost_pod_has_its_error(status: Json, kind: type[Exception] | None) -> None:
    lost = loss_error(status, "u")
    assert (type(lost) if lost else None) is kind
    assert lost is None or "n/p" in str(lost)


def test_waiting_pod_names_its_obstacle() -> None:
    pulling = pod(
        "Pending", containerStatuses=container(waiting={"reason": "ErrImagePull", "message": "no such image"})
    )
    assert not ready(pulling) and waiting_for(pulling) == "ErrImagePull: no such image"
    proxy = {"name": "envoy", "state": {"waiting": {"reason": "PodInitializing"}}}
    both = pod("Pending", containerStatuses=[proxy, *pulling["status"]["containerStatuses"]])
    assert waiting_for(both) == "ErrImagePull: no such image", "a container that others added comes second"
    running = pod("Pending", containerStatuses=[proxy, *container(running={})])
    assert waiting_for(running) == "container envoy: PodInitializing"
    unready = {"name": "envoy", "ready": False, "state": {"running": {}}}
    beside = pod("Running", containerStatuses=[unready, *container(running={}, ready=True)])
    assert waiting_for(beside) == "container envoy: its readiness probe does not pass"
    held = pod(
        "Pending", initContainerStatuses=[unready], containerStatuses=container(waiting={"reason": "PodInitializing"})
    )
    assert waiting_for(held) == "container envoy: its readiness probe does not pass", "a sidecar that starts first"
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}
    assert waiting_for(pod("Pending", conditions=[unscheduled])) == "Unschedulable: no cpu"
    assert ready(pod(conditions=[{"type": "Ready", "status": "True"}]))
