"""What a refused Pod means for its group: some refusals pass, others are its end."""

from __future__ import annotations

import pytest
from swerl_kube import Forbidden
from swerl_operator.sandboxes.group_state import GroupState
from swerl_operator.sandboxes.settings import SandboxSettings

SETTINGS = SandboxSettings()
NOW = 1_000_000.0
WEEK = 7 * 86_400.0


def refused(message: str, *times: float) -> GroupState:
    state = GroupState()
    for time in times:
        state.pod_refused(Forbidden("POST pods", 403, "Forbidden", message), time, SETTINGS)
    return state


@pytest.mark.parametrize("why", ["exceeded quota: q, requested: pods=1", "status unknown for quota: q"])
def test_quota_refusal_never_fails_the_group(why: str) -> None:
    state = refused(f'pods "swesb-g-0" is forbidden: {why}', NOW, NOW + WEEK)
    assert not state.rejection
    assert state.refusal is not None and state.refusal[0] == "WaitingForCapacity" and why in state.refusal[1]
    state.pod_accepted()
    assert state.refusal is None


def test_other_refusals_fail_the_group_after_a_timeout() -> None:
    why = "failed quota: q: must specify limits.cpu for: sandbox"
    assert not refused(why, NOW).rejection
    state = refused(why, NOW, NOW + SETTINGS.rejection_timeout)
    assert why in state.rejection
