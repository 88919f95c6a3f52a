"""The dispatcher's decisions, without clock or I/O."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swerl_trainer.rollout.complete_groups import ROLLOUTS_FILE, read_complete_groups, write_complete_groups
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.group import DeclareGroup, DiscardGroup, Rollout, StartMembers

from .dispatching import dispatcher, finish, mixed, started


def test_step_is_made_of_the_next_prompts_in_order() -> None:
    d = dispatcher()
    assert started(d.actions()) == ["g0", "g1"]
    assert d.take() is None
    mixed(d, ["g1", "g0"])
    step = d.take()
    assert step is not None
    assert [group.request.id for group in step.groups] == ["g0", "g1"]


def test_on_policy_groups_start_only_with_the_steps_own_weights() -> None:
    d = dispatcher()
    d.actions()
    mixed(d, ["g0", "g1"])
    assert d.take() is not None
    assert started(d.actions()) == []
    d.updated(1)
    assert started(d.actions()) == ["g2", "g3"]


def test_groups_with_equal_rewards_train_where_advantages_use_the_batch() -> None:
    d = dispatcher(name="reinforce_plus_plus")
    d.actions()
    finish(d, "g0", [1.0, 1.0])
    finish(d, "g1", [-1.0, None])
    step = d.take()
    assert step is not None
    assert [group.request.id for group in step.groups] == ["g0", "g1"]


def test_sandboxes_are_declared_ahead_and_used_by_the_next_step() -> None:
    d = dispatcher(prefetch=2)
    prefetched = [action.request.id for action in d.actions() if isinstance(action, DeclareGroup)]
    assert prefetched == ["g2", "g3"]
    mixed(d, ["g0", "g1"])
    d.take()
    d.updated(1)
    assert started(d.actions()) == ["g2", "g3"]


def test_nothing_is_declared_beyond_the_last_step() -> None:
    d = dispatcher(steps=1, prefetch=5)
    assert not [action for action in d.actions() if isinstance(action, DeclareGroup)]


def test_sandboxes_ahead_leave_room_for_one_more_group() -> None:
    d = dispatcher(prefetch=5, max_concurrent=8)
    assert len([action for action in d.actions() if isinstance(action, DeclareGroup)]) == 1


def test_episode_in_grading_frees_its_sandbox_slot() -> None:
    d = dispatcher(prefetch=5, max_concurrent=6)
    assert not [action for action in d.actions() if isinstance(action, DeclareGroup)]
    d.episode_ended("g0", 0)
    assert not d.actions()
    d.episode_ended("g1", 1)
    assert [action.request.id for action in d.actions() if isinstance(action, DeclareGroup)] == ["g2"]
    assert d.load()["train/running"] == 2


def test_member_lost_to_infrastructure_is_masked_while_two_remain() -> None:
    d = dispatcher(group_size=3)
    d.actions()
    finish(d, "g0", [1.0, None, -1.0])
    finish(d, "g1", [1.0, -1.0, -1.0])
    step = d.take()
    assert step is not None
    assert [len(group.valid) for group in step.groups] == [2, 3]


def test_failed_members_run_again_then_the_group_is_dropped() -> None:
    d = dispatcher(retries=1)
    d.actions()
    finish(d, "g0", [1.0, None])
    restarted = [action for action in d.actions() if isinstance(action, StartMembers)]
    assert [(a.request.id, a.members, a.retry) for a in restarted] == [("g0", (1,), 1)]
    d.graded(Rollout("g0", 1, "t", valid=False))
    assert started(d.actions()) == ["g2"]
    mixed(d, ["g1", "g2"])
    step = d.take()
    assert step is not None
    assert step.dropped == {"infrastructure": 1}


def test_broken_cluster_is_detected_and_one_working_group_continues() -> None:
    d = dispatcher(retries=0)
    for position in range(4):
        assert d.stuck() is None
        d.actions()
        finish(d, f"g{position}", [None, None])
    assert d.stuck() is not None
    d.actions()
    mixed(d, ["g4"])
    assert d.stuck() is None


def test_groups_without_signal_are_replaced_up_to_a_limit() -> None:
    d = dispatcher(steps=1)
    d.actions()
    for position in range(4):
        finish(d, f"g{position}", [1.0, 1.0])
        d.actions()
    assert d.take() is None
    finish(d, "g4", [1.0, 1.0])
    d.actions()
    finish(d, "g5", [1.0, 1.0])
    step = d.take()
    assert step is not None
    assert len(step.filtered) == 4
    assert step.dropped == {"equal_rewards": 4}


def test_without_the_filter_every_complete_group_counts() -> None:
    d = dispatcher(dynamic_filter=False)
    d.actions()
    finish(d, "g0", [1.0, 1.0])
    finish(d, "g1", [-1.0, -1.0])
    assert d.take() is not None


def test_oversampled_groups_are_stopped_when_the_step_is_full() -> None:
    d = dispatcher(oversampling=2.0)
    assert started(d.actions()) == ["g0", "g1", "g2", "g3"]
    mixed(d, ["g3", "g1"])
    step = d.take()
    assert step is not None
    assert [group.request.id for group in step.groups] == ["g1", "g3"]
    assert [a.request.id for a in d.actions() if isinstance(a, DiscardGroup)] == ["g0", "g2"]
    d.graded(Rollout("g0", 0, "t", valid=True, reward=1.0))
    assert "g0" not in d.groups


def test_episodes_that_were_run_again_are_counted_as_lost() -> None:
    d = dispatcher()
    d.actions()
    finish(d, "g0", [None, None])
    d.actions()
    d.graded(Rollout("g0", 0, "t", valid=False, error_code="pod_evicted"))
    d.graded(Rollout("g0", 1, "t", valid=True, reward=1.0))
    d.actions()
    d.graded(Rollout("g0", 0, "t", valid=True, reward=-1.0))
    mixed(d, ["g1"])
    step = d.take()
    assert step is not None
    assert all(rollout.valid for group in step.groups for rollout in group.rollouts.values())
    assert (step.episodes, step.lost) == (7, {"unknown": 2, "pod_evicted": 1})
    d.updated(1)
    d.actions()
    mixed(d, ["g2", "g3"])
    later = d.take()
    assert later is not None and (later.episodes, later.lost) == (4, {})


def test_staleness_lets_the_next_step_roll_while_this_one_trains() -> None:
    d = dispatcher(max_staleness=1)
    assert started(d.actions()) == ["g0", "g1", "g2", "g3"]
    mixed(d, ["g0", "g1", "g2", "g3"])
    first = d.take()
    assert first is not None
    assert started(d.actions()) == []
    d.updated(1)
    assert started(d.actions()) == ["g4", "g5"]
    second = d.take()
    assert second is not None
    assert {group.version for group in second.groups} == {0}


def test_weights_wait_for_episodes_unless_these_may_go_on() -> None:
    for partial in (False, True):
        d = dispatcher(max_staleness=1, partial_rollouts=partial)
        d.actions()
        mixed(d, ["g0", "g1"])
        d.take()
        d.drain()
        assert d.may_update() is partial
        mixed(d, ["g2", "g3"])
        assert d.may_update()
        d.updated(1)
        assert started(d.actions()) == ["g4", "g5"]


def test_evaluation_is_finished_before_the_weights_change() -> None:
    d = dispatcher()
    d.evaluate("before", [0, 1], samples=2, temperature=0.0)
    assert started(d.actions())[:2] == ["ebefore-0", "ebefore-1"]
    mixed(d, ["g0", "g1"])
    assert d.take() is not None
    assert not d.may_update()
    mixed(d, ["ebefore-0"])
    finish(d, "ebefore-1", [1.0, None])
    assert started(d.actions()) == ["ebefore-1"]
    d.graded(Rollout("ebefore-1", 1, "t", valid=True, reward=-1.0))
    rollouts = d.evaluated()
    assert rollouts is not None
    assert len(rollouts) == 4
    assert d.may_update()


def test_resumed_dispatcher_keeps_the_order() -> None:
    d = dispatcher(tasks=3, prefetch=2)
    d.actions()
    mixed(d, ["g0", "g1"])
    d.take()
    d.updated(1)
    e = Dispatcher(d.algorithm, d.sandbox, d.order, taken=1, position=d.position, pending=d.pending())
    assert started(e.actions()) == started(d.actions()) == ["g2", "g3"]
    assert [e.groups[g].request.task for g in ("g2", "g3")] == [2, 0]


def test_resumed_dispatcher_trains_what_was_complete_and_runs_again_what_is_stale(tmp_path: Path) -> None:
    d = dispatcher(max_staleness=1)
    d.actions()
    mixed(d, ["g0", "g1", "g2"])
    d.take()
    d.updated(1)
    write_complete_groups(tmp_path, d.complete_groups())
    rest: dict[str, Any] = {
        "taken": 1,
        "position": d.position,
        "pending": d.pending(),
        "complete": read_complete_groups(tmp_path),
    }
    e = Dispatcher(d.algorithm, d.sandbox, d.order, **rest)
    assert "g2" not in started(e.actions())
    mixed(e, ["g3"])
    step = e.take()
    assert step is not None and [group.request.id for group in step.groups] == ["g2", "g3"]
    assert step.groups[0].rollouts == d.groups["g2"].rollouts
    strict = Dispatcher(d.algorithm.model_copy(update={"max_staleness": 0}), d.sandbox, d.order, **rest)
    assert "g2" in started(strict.actions())


def test_kept_rollouts_that_cannot_be_read_run_again(tmp_path: Path) -> None:
    (tmp_path / ROLLOUTS_FILE).write_bytes(b"of another version")
    assert read_complete_groups(tmp_path) == []
