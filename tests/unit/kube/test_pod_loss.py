"""Operator and agent name the same loss for the same Pod."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.sandbox.pod import LOSS_ERRORS, loss_error
from swerl_api.conditions import SandboxReason
from swerl_operator.sandboxes.parsed import parse_pod

Json = dict[str, Any]


def failed(reason: str, **status: Any) -> Json:
    metadata = {"namespace": "n", "name": "swesb-x-0", "uid": "u"}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Failed", "reason": reason, **status}}


def disrupted(reason: str) -> Json:
    return failed("", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}])


def exited(message: str, seconds: int) -> Json:
    """A Pod whose container ended `seconds` after its start, as containerd reports it."""
    times = {"startedAt": "2026-11-27T07:22:30Z", "finishedAt": f"2026-11-27T07:22:{30 + seconds}Z"}
    ended = {"exitCode": 255, "reason": "Error", "message": message, **times}
    return failed("", containerStatuses=[{"name": "sandbox", "restartCount": 0, "state": {"terminated": ended}}])


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (failed("OutOfcpu", message="too little"), SandboxReason.POD_REJECTED),
        (failed("UnexpectedAdmissionError"), SandboxReason.POD_REJECTED),
        (failed("Evicted", message="disk"), SandboxReason.EVICTED),
        (failed("Evicted", message='Usage of EmptyDir volume "tmp" exceeds 1Gi'), SandboxReason.STORAGE_EXCEEDED),
        (failed("Preempting"), SandboxReason.PREEMPTED),
        (failed("DeadlineExceeded"), SandboxReason.LIFETIME_EXCEEDED),
        (failed("NodeShutdown"), SandboxReason.NODE_LOST),
        (exited("exec /usr/bin/sh: exec format error\n", 0), SandboxReason.FOREIGN_ARCHITECTURE),
        (exited("exec format error, as a command of the sandbox prints it", 9), SandboxReason.CONTAINER_EXITED),
        (disrupted("DeletionByTaintManager"), SandboxReason.NODE_LOST),
        (disrupted("EvictionByEvictionAPI"), SandboxReason.EVICTED),
    ],
)
def test_operator_and_agent_agree_on_a_lost_pod(pod: Json, reason: str) -> None:
    parsed = parse_pod(pod)
    assert parsed is not None and parsed.reason == reason
    assert type(loss_error(pod, "u")) is LOSS_ERRORS[reason]
