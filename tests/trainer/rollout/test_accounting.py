"""What becomes of every group that was started, and how old its weights may be."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.group import GroupState, Rollout, StepGroups
from swerl_trainer.rollout.staleness import staleness

from .dispatching import dispatcher, finish, mixed, started


@pytest.mark.parametrize("seed", range(20))
def test_every_group_is_accounted_for(seed: int) -> None:
    """A random history: whatever is started is trained, dropped for a reason, or carried over; staleness stays in
    bounds, where steps that changed no weight do not count."""
    rng = random.Random(seed)
    d = dispatcher(
        tasks=7,
        steps=6,
        oversampling=rng.choice([1.0, 1.5]),
        max_staleness=rng.choice([0, 1, 2]),
        partial_rollouts=rng.random() < 0.5,
        prefetch=rng.choice([0, 1, 3]),
    )
    trained: list[GroupState] = []
    unchanged: set[int] = set()
    dropped = carried = 0
    while d.taken < 6:
        d.running_limit = rng.choice([None, 1, 2, 3])
        d.actions()
        end_one_episode(d, rng)
        step = d.take()
        if step is not None:
            ages = [staleness(group.version, d.taken - 1, unchanged) for group in step.groups]
            assert all(0 <= age <= d.algorithm.max_staleness for age in ages)
            trained += step.groups
            dropped += sum(step.dropped.values())
            assert carried + step.started == len(step.groups) + sum(step.dropped.values()) + step.carried_over
            carried = step.carried_over
            d.drain()
            run_until(d, rng, lambda: d.may_update())
            changed = rng.random() < 0.7
            unchanged |= set() if changed else {d.taken}
            d.updated(d.taken, changed=changed)
    assert (len(trained), carried) == (12, 0)
    stale = sum(d._dropped.values())
    assert d.position == len(trained) + dropped + stale + len(d.pending())


def end_one_episode(d: Dispatcher, rng: random.Random) -> None:
    """End one running member."""
    running = [(group.request.id, index) for group in d.groups.values() for index in sorted(group.running)]
    if running:
        group, index = rng.choice(running)
        valid = rng.random() > 0.2
        d.graded(Rollout(group, index, "t", valid=valid, reward=rng.choice([1.0, -1.0])))


def run_until(d: Dispatcher, rng: random.Random, done: Callable[[], bool]) -> None:
    while not done():
        d.actions()
        end_one_episode(d, rng)


def take(d: Dispatcher) -> StepGroups:
    step = d.take()
    assert step is not None
    return step


def oversampled() -> Dispatcher:
    """One step ahead; the first step took g0 and g1, and g2 and g3, as old as those, are complete."""
    d = dispatcher(max_staleness=1, oversampling=2.0)
    assert started(d.actions()) == ["g0", "g1", "g2", "g3", "g4", "g5"]
    mixed(d, ["g4", "g5", "g0", "g1"])
    assert [group.request.id for group in take(d).groups] == ["g0", "g1"]
    return d


@pytest.mark.parametrize(("changed", "dropped"), [(True, {"stale": 2}), (False, {})])
def test_step_that_changed_no_weight_makes_no_group_stale(changed: bool, dropped: dict[str, int]) -> None:
    d = oversampled()
    d.updated(1, changed=changed)
    d.actions()
    mixed(d, ["g2", "g3"])
    step = take(d)
    assert ([group.request.id for group in step.groups], step.dropped) == (["g2", "g3"], dropped)
    assert ("g4" in d.groups) is not changed
    d.updated(2)
    d.actions()
    if not changed:
        assert [group.request.id for group in take(d).groups] == ["g4", "g5"], "a change of the weights behind"


def test_resumed_dispatcher_counts_the_same_steps() -> None:
    d = oversampled()
    rest = {"taken": 2, "position": d.position, "pending": d.pending(), "complete": d.complete_groups()}
    for unchanged, complete in (((), 0), ((1,), 2)):
        e = Dispatcher(d.algorithm, d.sandbox, d.order, unchanged=unchanged, **rest)  # type: ignore[arg-type]
        assert len(e.complete_groups()) == complete


def test_groups_that_run_or_wait_are_carried_over() -> None:
    d = dispatcher(max_staleness=1)
    d.actions()
    mixed(d, ["g0", "g1", "g2"])
    first = take(d)
    assert (first.started, first.carried_over) == (4, 2)
    d.updated(1)
    d.actions()
    finish(d, "g3", [1.0, 1.0])
    mixed(d, ["g4"])
    second = take(d)
    assert [group.request.id for group in second.groups] == ["g2", "g4"]
    assert (second.started, second.dropped, second.carried_over) == (2, {"equal_rewards": 1}, 1)
