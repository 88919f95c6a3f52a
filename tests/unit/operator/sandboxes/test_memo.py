"""What a refused Pod means for its group: some refusals pass, others are its end."""

from __future__ import annotations

import pytest
from swerl_operator.errors import Forbidden
from swerl_operator.sandboxes.group_state import Memo
from swerl_operator.sandboxes.settings import SandboxSettings

SETTINGS = SandboxSettings()
NOW = 1_000_000.0
WEEK = 7 * 86_400.0


def refused(message: str, *times: float) -> Memo:
    memo = Memo(scope=("ns", "j"))
    for time in times:
        memo.refused(Forbidden("POST pods", 403, "Forbidden", message), time, SETTINGS)
    return memo


@pytest.mark.parametrize("why", ["exceeded quota: q, requested: pods=1", "status unknown for quota: q"])
def test_a_quota_is_waited_for_as_long_as_it_takes(why: str) -> None:
    memo = refused(f'pods "swesb-g-0" is forbidden: {why}', NOW, NOW + WEEK)
    assert not memo.rejected
    assert memo.refusal is not None and memo.refusal[0] == "WaitingForCapacity" and why in memo.refusal[1]
    memo.accepted()
    assert memo.refusal is None


def test_other_refusals_are_the_end_once_they_last() -> None:
    why = "failed quota: q: must specify limits.cpu for: sandbox"
    assert not refused(why, NOW).rejected
    memo = refused(why, NOW, NOW + SETTINGS.reject_patience)
    assert why in memo.rejected
