"""What a refused Pod means for its group: some refusals pass, others are its end."""

from __future__ import annotations

import json

import pytest
from swerl_kube import Forbidden
from swerl_kube.errors import answer_error
from swerl_operator.sandboxes.group_state import SandboxGroupState
from swerl_operator.sandboxes.settings import SandboxSettings

SETTINGS = SandboxSettings()
NOW = 1_000_000.0
WEEK = 7 * 86_400.0


def refused(message: str, *times: float) -> SandboxGroupState:
    state = SandboxGroupState()
    for time in times:
        state.pod_refused(Forbidden("POST pods", 403, "Forbidden", message), time, SETTINGS)
    return state


@pytest.mark.parametrize("quota_message", ["exceeded quota: q, requested: pods=1", "status unknown for quota: q"])
def test_quota_refusal_never_fails_the_group(quota_message: str) -> None:
    state = refused(f'pods "swesb-g-0" is forbidden: {quota_message}', NOW, NOW + WEEK)
    assert not state.rejection
    assert state.refusal is not None and state.refusal[0] == "WaitingForCapacity" and quota_message in state.refusal[1]
    state.pod_accepted()
    assert state.refusal is None


def test_other_refusals_fail_the_group_after_a_timeout() -> None:
    quota_message = "failed quota: q: must specify limits.cpu for: sandbox"
    assert not refused(quota_message, NOW).rejection
    state = refused(quota_message, NOW, NOW + SETTINGS.rejection_timeout)
    assert quota_message in state.rejection


def test_webhook_that_does_not_answer_is_named_and_fails_no_group() -> None:
    text = 'Internal error occurred: failed calling webhook "policy.example.org": connection refused'
    body = json.dumps({"kind": "Status", "message": text})
    state = SandboxGroupState()
    for time in (NOW, NOW + WEEK):
        assert not state.pod_refused(answer_error("POST pods", 500, body), time, SETTINGS)  # type: ignore[arg-type]
    assert state.refusal == ("PodRejected", f"the API server refuses the Pod: {text}") and not state.rejection
