"""Group advantages: what moves a group's statistics and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from swerl_api.algorithm import AlgorithmSpec
from swerl_trainer.algorithm import (
    AlgorithmError,
    TrainingSample,
    advantages_of,
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


def test_infrastructure_failure_does_not_move_the_baseline() -> None:
    healthy = group_advantages(group(1, -1, -1))
    with_failure = group_advantages([*group(1, -1, -1), rollout(0.0, index=3, valid=False)])
    assert with_failure == healthy


def test_group_left_with_one_valid_rollout_gives_no_gradient() -> None:
    samples = [rollout(1.0, index=0), rollout(-1.0, index=1, valid=False)]
    assert group_advantages(samples) == {}


def test_groups_are_independent() -> None:
    together = group_advantages([*group(1, -1, name="a"), *group(5, 3, 1, name="b")])
    assert together[0] == pytest.approx(group_advantages(group(1, -1))[0])
    assert together[2] == pytest.approx(group_advantages(group(5, 3, 1))[0])


def test_trajectory_cut_into_steps_counts_once() -> None:
    full_group = group_advantages(group(1, -1, -1, -1))
    cut_group = [rollout(1.0, index=0, step=s) for s in range(7)] + group(1, -1, -1, -1)[1:]
    advantages = group_advantages(cut_group)
    assert [advantages[i] for i in range(7)] == [pytest.approx(full_group[0])] * 7
    assert advantages[7] == pytest.approx(full_group[1])


def test_one_invalid_step_invalidates_its_trajectory() -> None:
    samples = [rollout(1.0, index=0), rollout(1.0, index=0, step=1, valid=False), *group(9, 1, -1)[1:]]
    assert set(group_advantages(samples)) == {2, 3}


def test_different_rewards_within_a_trajectory_are_an_error() -> None:
    with pytest.raises(AlgorithmError, match=r"g/0\.1"):
        group_advantages([rollout(1.0), rollout(-1.0, step=1), rollout(0.0, index=1)])


def test_dynamic_filter_keeps_groups_with_signal() -> None:
    samples = [*group(1, 1, name="a"), *group(1, -1, name="b"), *group(-1, -1, name="c")]
    assert groups_with_signal(samples) == {"b"}


def test_mask_of_another_length_is_refused_with_the_samples_name() -> None:
    with pytest.raises(AlgorithmError, match="g/3"):
        TrainingSample([1, 2], [1], [], 0.0, True, "g", 3, "task")


# Other estimators


def lengths(count: int, reward: float, *, group: str = "g", index: int = 0) -> TrainingSample:
    """A rollout with `count` trained tokens."""
    mask = [0] + [1] * count
    return TrainingSample([1] * (count + 1), mask, [-1.0] * (count + 1), reward, True, group, index, "task")


def estimated(name: str, samples: list[TrainingSample], **fields: Any) -> list[float]:
    advantages = advantages_of(samples, AlgorithmSpec(name=name, **fields))
    return [advantages.get(position, 0.0) for position in range(len(samples))]


def test_rloo_subtracts_the_mean_of_the_others() -> None:
    rewards = [1.0, -1.0, 0.5, 0.0]
    expected = [r - np.mean([*rewards[:i], *rewards[i + 1 :]]) for i, r in enumerate(rewards)]
    assert estimated("rloo", group(*rewards)) == pytest.approx(expected)
    assert estimated("rloo", group(1, 1)) == [0, 0]


def test_reinforce_of_single_episodes_takes_their_rewards() -> None:
    samples = [rollout(1.0, group="a"), rollout(-1.0, group="b"), rollout(0.0, group="c")]
    assert advantages_of(samples, AlgorithmSpec(name="reinforce", group_size=1)) == {0: 1.0, 1: -1.0}
    assert advantages_of(samples, AlgorithmSpec(name="reinforce", group_size=2)) == {}


TOKENS, REWARDS = np.array([2, 1, 4, 3]), np.array([1.0, -1.0, 1.0, 0.5])


def in_two_groups() -> list[TrainingSample]:
    return [
        lengths(int(count), float(reward), group="ab"[i // 2], index=i % 2)
        for i, (count, reward) in enumerate(zip(TOKENS, REWARDS, strict=True))
    ]


def normalised(values: npt.NDArray[np.float64]) -> list[float]:
    """Over tokens: each trajectory's value repeated for each of its tokens."""
    tokens = np.repeat(values, TOKENS)
    return [float(value) for value in (values - tokens.mean()) / np.sqrt(tokens.var(ddof=1) + 1e-8)]


def test_reinforce_plus_plus_normalises_over_the_tokens_of_the_batch() -> None:
    assert estimated("reinforce_plus_plus", in_two_groups()) == pytest.approx(normalised(REWARDS))
    assert advantages_of(group(1, 1), AlgorithmSpec(name="reinforce_plus_plus")) == {}


def test_reinforce_plus_plus_baseline_subtracts_the_groups_mean_first() -> None:
    centred = REWARDS - np.repeat(REWARDS.reshape(2, 2).mean(axis=1), 2)
    assert estimated("reinforce_plus_plus_baseline", in_two_groups()) == pytest.approx(normalised(centred))
    equal = [*group(1, 1, name="a"), *group(-1, -1, name="b")]
    assert advantages_of(equal, AlgorithmSpec(name="reinforce_plus_plus_baseline")) == {}


@pytest.mark.parametrize("name", ["rloo", "reinforce", "reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_no_estimator_counts_a_lost_rollout(name: str) -> None:
    algorithm = AlgorithmSpec(name=name, group_size=1 if name == "reinforce" else 8)
    healthy = advantages_of(group(1, -1, 0.5), algorithm)
    assert healthy and advantages_of([*group(1, -1, 0.5), rollout(9.0, index=3, valid=False)], algorithm) == healthy


def own_advantage(samples: Sequence[TrainingSample], algorithm: AlgorithmSpec) -> dict[int, float]:
    return {position: 10 * sample.reward for position, sample in enumerate(samples)}


def beyond(samples: Sequence[TrainingSample], algorithm: AlgorithmSpec) -> dict[int, float]:
    return {len(samples): 1.0}


def test_own_function_gives_the_advantages_of_valid_samples() -> None:
    samples = [rollout(1.0), rollout(3.0, index=1, valid=False)]
    assert advantages_of(samples, AlgorithmSpec(advantage=f"{__name__}.own_advantage")) == {0: 10.0}


def test_own_function_must_give_positions_of_the_samples() -> None:
    with pytest.raises(AlgorithmError, match=r"beyond gave 1\.0 for position 2"):
        advantages_of(group(1, -1), AlgorithmSpec(advantage=f"{__name__}.beyond"))


# Rewards per answer


def scored(index: int, outcome: float, *rewards: float | None, group: str = "g") -> TrainingSample:
    """A rollout with one token per answer and a reward where its judge gave one."""
    count = len(rewards)
    return TrainingSample(
        [0, *[1] * count], [0, *[1] * count], [0.0, *[-1.0] * count], outcome, True, group, index, "task",
        answers=[(step, step + 1, step + 2) for step in range(count)],
        step_rewards={step: reward for step, reward in enumerate(rewards) if reward is not None},
    )  # fmt: skip


def test_answer_is_compared_with_those_at_its_place() -> None:
    found = answer_advantages([scored(0, 1, 2.0, 0.0), scored(1, -1, -2.0, 0.5)], scale_by_std=False)
    assert found == {0: [(1, 2, 2.0), (2, 3, -0.25)], 1: [(1, 2, -2.0), (2, 3, 0.25)]}


def test_scores_belong_to_their_answer_despite_gaps() -> None:
    found = answer_advantages([scored(0, 1, None, 2.0), scored(1, 1, 0.0, 0.0)], scale_by_std=False)
    assert found == {0: [(2, 3, 1.0)], 1: [(2, 3, -1.0)]}


def test_unscored_answer_learns_from_the_outcome() -> None:
    found = answer_advantages([scored(0, 1, None, 1.0, 1.5), scored(1, -1, None, 0.0)], scale_by_std=False)
    assert found == {0: [(1, 2, 1.0), (2, 3, 0.5), (3, 4, 1.0)], 1: [(1, 2, -1.0), (2, 3, -0.5)]}


def test_answers_with_equal_rewards_give_no_gradient() -> None:
    assert answer_advantages([scored(0, 1, 1.0), scored(1, -1, 1.0)]) == {}


def test_answers_of_a_lost_rollout_do_not_count() -> None:
    lost = replace(scored(2, -1, -9.0), valid=False)
    samples = [scored(0, 1, 2.0), scored(1, 1, 0.0)]
    assert answer_advantages([*samples, lost]) == answer_advantages(samples)
