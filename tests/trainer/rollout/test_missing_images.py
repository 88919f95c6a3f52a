"""What the dispatcher makes of episodes whose image cannot be pulled."""

from __future__ import annotations

import pytest
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.group import Rollout

from .dispatching import dispatcher, mixed, started


def fail_image_pull(target: Dispatcher, group: str, index: int) -> None:
    """End a member of a group for want of its image."""
    target.graded(Rollout(group, index, "t", valid=False, error_code="image_pull_failed"))


def test_failing_image_fails_only_its_own_prompt() -> None:
    d = dispatcher(retries=0)
    d.actions()
    for index in (0, 1):
        fail_image_pull(d, "g0", index)
    assert d.stuck() is None and d.only_lost_to("image_pull_failed")
    assert started(d.actions()) == ["g2"]
    mixed(d, ["g1", "g2"])
    step = d.take()
    assert step is not None and step.dropped == {"infrastructure": 1}
    assert not d.only_lost_to("image_pull_failed")


@pytest.mark.parametrize("other_end", ["pod_evicted", "", None])
def test_one_other_end_is_recorded(other_end: str | None) -> None:
    d = dispatcher(retries=0)
    d.actions()
    assert not d.only_lost_to("image_pull_failed")
    fail_image_pull(d, "g0", 0)
    assert d.only_lost_to("image_pull_failed")
    d.graded(Rollout("g0", 1, "t", valid=other_end is None, error_code=other_end or ""))
    fail_image_pull(d, "g1", 0)
    assert not d.only_lost_to("image_pull_failed")
