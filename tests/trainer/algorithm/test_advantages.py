"""Group advantages: what moves a group's statistics and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swerl_trainer.algorithm import (
    AlgorithmError,
    TrainingSample,
    answer_advantages,
    group_advantages,
    groups_with_signal,
)


def rollout(reward: float, *, group: str = "g", index: int = 0, valid: bool = True, step: int = 0) -> TrainingSample:
    return TrainingSample([1, 2, 3], [0, 1, 1], [0.0, -1.0, -1.0], reward, valid, group, index, "task", step)


def group(*rewards: float, name: str = "g") -> list[TrainingSample]:
    return [rollout(reward, group=name, index=i) for i, reward in enumerate(rewards)]


def test_rewards_are_centred_and_divided_by_the_sample_standard_deviation() -> None:
    advantages = group_advantages(group(1, -1, -1, -1))
    assert [advantages[i] for i in range(4)] == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)


def test_without_normalisation_rewards_are_only_centred() -> None:
    advantages = group_advantages(group(1, -1, -1, 1, 1), scale_by_std=False)
    assert [advantages[i] for i in range(5)] == pytest.approx([0.8, -1.2, -1.2, 0.8, 0.8])


@pytest.mark.parametrize("rewards", [(1.0, 1.0, 1.0), (-1.0, -1.0), (1.0,)])
def test_equal_or_single_rewards_give_no_gradient(rewards: tuple[float, ...]) -> None:
    assert group_advantages(group(*rewards)) == {}


def test_an_infrastructure_failure_does_not_move_the_baseline() -> None:
    healthy = group_advantages(group(1, -1, -1))
    with_failure = group_advantages([*group(1, -1, -1), rollout(0.0, index=3, valid=False)])
    assert with_failure == healthy


def test_a_group_left_with_one_valid_rollout_gives_no_gradient() -> None:
    samples = [rollout(1.0, index=0), rollout(-1.0, index=1, valid=False)]
    assert group_advantages(samples) == {}


def test_groups_do_not_influence_each_other() -> None:
    together = group_advantages([*group(1, -1, name="a"), *group(5, 3, 1, name="b")])
    assert together[0] == pytest.approx(group_advantages(group(1, -1))[0])
    assert together[2] == pytest.approx(group_advantages(group(5, 3, 1))[0])


def test_a_trajectory_cut_into_steps_counts_once() -> None:
    whole = group_advantages(group(1, -1, -1, -1))
    cut = [rollout(1.0, index=0, step=s) for s in range(7)] + group(1, -1, -1, -1)[1:]
    advantages = group_advantages(cut)
    assert [advantages[i] for i in range(7)] == [pytest.approx(whole[0])] * 7
    assert advantages[7] == pytest.approx(whole[1])


def test_one_invalid_step_invalidates_its_trajectory() -> None:
    samples = [rollout(1.0, index=0), rollout(1.0, index=0, step=1, valid=False), *group(9, 1, -1)[1:]]
    assert set(group_advantages(samples)) == {2, 3}


def test_different_rewards_within_a_trajectory_are_an_error() -> None:
    with pytest.raises(AlgorithmError, match=r"g/0\.1"):
        group_advantages([rollout(1.0), rollout(-1.0, step=1), rollout(0.0, index=1)])


def test_the_dynamic_filter_keeps_groups_with_signal() -> None:
    samples = [*group(1, 1, name="a"), *group(1, -1, name="b"), *group(-1, -1, name="c")]
    assert groups_with_signal(samples) == {"b"}


def test_a_mask_of_another_length_is_refused_with_the_samples_name() -> None:
    with pytest.raises(AlgorithmError, match="g/3"):
        TrainingSample([1, 2], [1], [], 0.0, True, "g", 3, "task")


# Rewards per answer


def scored(index: int, outcome: float, *rewards: float | None, group: str = "g") -> TrainingSample:
    """A rollout with one token per answer and a reward where its judge gave one."""
    count = len(rewards)
    return TrainingSample(
        [0, *[1] * count], [0, *[1] * count], [0.0, *[-1.0] * count], outcome, True, group, index, "task",
        answers=[(step, step + 1, step + 2) for step in range(count)],
        step_rewards={step: reward for step, reward in enumerate(rewards) if reward is not None},
    )  # fmt: skip


def test_an_answer_is_compared_with_those_at_its_place() -> None:
    found = answer_advantages([scored(0, 1, 2.0, 0.0), scored(1, -1, -2.0, 0.5)], scale_by_std=False)
    assert found == {0: [(1, 2, 2.0), (2, 3, -0.25)], 1: [(1, 2, -2.0), (2, 3, 0.25)]}


def test_scores_belong_to_their_answer_whatever_is_missing_before_it() -> None:
    found = answer_advantages([scored(0, 1, None, 2.0), scored(1, 1, 0.0, 0.0)], scale_by_std=False)
    assert found == {0: [(2, 3, 1.0)], 1: [(2, 3, -1.0)]}


def test_an_answer_that_no_judge_scored_or_no_other_rollout_reaches_learns_from_the_outcome() -> None:
    found = answer_advantages([scored(0, 1, None, 1.0, 1.5), scored(1, -1, None, 0.0)], scale_by_std=False)
    assert found == {0: [(1, 2, 1.0), (2, 3, 0.5), (3, 4, 1.0)], 1: [(1, 2, -1.0), (2, 3, -0.5)]}


def test_answers_with_equal_rewards_give_no_gradient() -> None:
    assert answer_advantages([scored(0, 1, 1.0), scored(1, -1, 1.0)]) == {}


def test_answers_of_a_lost_rollout_do_not_count() -> None:
    lost = replace(scored(2, -1, -9.0), valid=False)
    samples = [scored(0, 1, 2.0), scored(1, 1, 0.0)]
    assert answer_advantages([*samples, lost]) == answer_advantages(samples)
