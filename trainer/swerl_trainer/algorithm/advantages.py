"""Advantages of one step.

Sources: group mean and scale, GRPO (Shao et al. 2024), eq. 3; without the scale, Dr. GRPO (Liu et al. 2025);
leave-one-out mean, RLOO (Ahmadian et al. 2024), section 3.3; normalised over the tokens of the batch, REINFORCE++
(Hu et al. 2025).

Guarantees: a rollout ended by infrastructure never moves its group's statistics; a group with fewer than two valid
rollouts, or with equal rewards, yields no gradient; a trajectory cut into several samples counts once. With rewards per
answer, an answer is compared with those at the same position in its group. An answer that the judge did not score, or
that no other rollout reaches, gets the advantage of the outcome.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev

from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.own_functions import own_function
from swerl_trainer.algorithm.training_sample import TrainingSample

EQUAL_REWARDS = 1e-12  # spread below which a group's rewards count as equal
STD_FLOOR = 1e-6  # added to the standard deviation so that near-equal rewards do not explode
VARIANCE_FLOOR = 1e-8  # the same, added to the variance over a batch


RolloutKey = tuple[str, int]
AdvantageFunction = Callable[[Sequence[TrainingSample], AlgorithmSpec], Mapping[int, float]]
"""`algorithm.advantage`: from all samples of a step to an advantage per position; those without gradient are absent."""


def advantages_of(samples: Sequence[TrainingSample], algorithm: AlgorithmSpec) -> dict[int, float]:
    """Advantage per position in `samples`, by the estimator of `algorithm`; positions without gradient are absent.

    Raises AlgorithmError as `group_advantages` does, and when the own function gives something else.
    """
    if algorithm.advantage:
        return _own(samples, algorithm)
    if not compares_groups(algorithm):
        rewards = _per_group(samples, dict)
        by_trajectory = rewards if algorithm.name == "reinforce" else _normalised(rewards, samples)
    elif algorithm.name == "rloo":
        by_trajectory = _per_group(samples, _leave_one_out)
    elif algorithm.name == "reinforce_plus_plus_baseline":
        by_trajectory = _normalised(_per_group(samples, _minus_mean), samples)
    else:
        return group_advantages(samples, scale_by_std=algorithm.advantage_normalisation == "std")
    return {
        position: by_trajectory[sample.trajectory]
        for position, sample in enumerate(samples)
        if sample.valid and abs(by_trajectory.get(sample.trajectory, 0.0)) > EQUAL_REWARDS
    }


def compares_groups(algorithm: AlgorithmSpec) -> bool:
    """Whether an advantage compares a rollout with others of its group, so that equal rewards give no gradient."""
    single_rollout = algorithm.name == "reinforce" and algorithm.group_size == 1
    return not (single_rollout or algorithm.name == "reinforce_plus_plus")


def group_advantages(samples: Sequence[TrainingSample], *, scale_by_std: bool = True) -> dict[int, float]:
    """Advantage per position in `samples`; positions without gradient are absent.

    `scale_by_std` divides the centred reward by the sample standard deviation of the group.
    Raises AlgorithmError when the samples of one trajectory carry different rewards.
    """
    rewards = _rewards_by_group(samples)
    advantages = {group: _centred(of_group, scale_by_std=scale_by_std) for group, of_group in rewards.items()}
    return {
        position: advantages[sample.group][sample.index]
        for position, sample in enumerate(samples)
        if sample.valid and sample.index in advantages.get(sample.group, {})
    }


def answer_advantages(
    samples: Sequence[TrainingSample], *, scale_by_std: bool = True
) -> dict[int, list[tuple[int, int, float]]]:
    """(first token, end, advantage) of the answers with gradient, per position in `samples`.

    Raises AlgorithmError as `group_advantages` does.
    """
    outcomes = group_advantages(samples, scale_by_std=scale_by_std)
    scored = {
        key: _ScoredAnswers(rewards, scale_by_std=scale_by_std) for key, rewards in _rewards_by_answer(samples).items()
    }
    spans: dict[int, list[tuple[int, int, float]]] = {}
    for position, sample in enumerate(samples):
        if not sample.valid:
            continue
        for answer, start, end in sample.answers:
            answers = scored.get((sample.group, answer))
            unpaired = answers is None or sample.index not in answers.rewards or len(answers.rewards) < 2
            advantage = outcomes.get(position) if answers is None or unpaired else answers.advantages.get(sample.index)
            if advantage is not None:
                spans.setdefault(position, []).append((start, end, advantage))
    return spans


def has_signal(rewards: Iterable[float]) -> bool:
    """Whether the rewards of a group's valid rollouts can give a gradient: at least two, and not all equal."""
    values = list(rewards)
    return len(values) >= 2 and max(values) - min(values) > EQUAL_REWARDS


def groups_with_signal(samples: Iterable[TrainingSample]) -> set[str]:
    """Groups that the dynamic filter keeps (DAPO, Yu et al. 2025)."""
    return {group for group, rewards in _rewards_by_group(samples).items() if has_signal(rewards.values())}


def _rewards_by_group(samples: Iterable[TrainingSample]) -> dict[str, dict[int, float]]:
    """Group -> rollout index -> reward, of trajectories all of whose samples are valid."""
    rewards: dict[str, dict[int, float]] = {}
    partly_invalid: set[tuple[str, int]] = set()
    for sample in samples:
        if not sample.valid:
            partly_invalid.add(sample.trajectory)
            continue
        recorded = rewards.setdefault(sample.group, {}).setdefault(sample.index, sample.reward)
        if recorded != sample.reward:
            raise AlgorithmError(f"{sample.name}: reward {sample.reward}, other samples of its trajectory {recorded}")
    for group, index in partly_invalid:
        rewards.get(group, {}).pop(index, None)
    return rewards


def _per_group(
    samples: Iterable[TrainingSample], estimate: Callable[[Mapping[int, float]], dict[int, float]]
) -> dict[RolloutKey, float]:
    return {
        (group, index): advantage
        for group, rewards in _rewards_by_group(samples).items()
        for index, advantage in estimate(rewards).items()
    }


def _leave_one_out(rewards: Mapping[int, float]) -> dict[int, float]:
    """Reward minus the mean of the others: n / (n - 1) times the distance to the group's mean."""
    count = len(rewards)
    return {index: count / (count - 1) * value for index, value in _minus_mean(rewards).items()}


def _minus_mean(rewards: Mapping[int, float]) -> dict[int, float]:
    if not has_signal(rewards.values()):
        return dict.fromkeys(rewards, 0.0) if len(rewards) >= 2 else {}
    mean = fmean(rewards.values())
    return {index: reward - mean for index, reward in rewards.items()}


def _normalised(values: Mapping[RolloutKey, float], samples: Sequence[TrainingSample]) -> dict[RolloutKey, float]:
    """`values` minus their mean, divided by their standard deviation, both over the trained tokens of the batch."""
    tokens: Counter[RolloutKey] = Counter()
    for sample in samples:
        if sample.trajectory in values:
            tokens[sample.trajectory] += sample.trainable_tokens
    count = tokens.total()
    if count < 2 or not has_signal(values[trajectory] for trajectory in tokens if tokens[trajectory]):
        return {}
    mean = sum(values[trajectory] * tokens[trajectory] for trajectory in tokens) / count
    variance = sum((values[trajectory] - mean) ** 2 * tokens[trajectory] for trajectory in tokens) / (count - 1)
    return {trajectory: (value - mean) / math.sqrt(variance + VARIANCE_FLOOR) for trajectory, value in values.items()}


def _own(samples: Sequence[TrainingSample], algorithm: AlgorithmSpec) -> dict[int, float]:
    function: AdvantageFunction = own_function("advantage", algorithm.advantage)
    advantages = function(samples, algorithm)
    for position, advantage in advantages.items():
        if not 0 <= position < len(samples) or not math.isfinite(advantage):
            raise AlgorithmError(
                f"algorithm.advantage: {algorithm.advantage} gave {advantage} for position {position}; it must give "
                f"finite numbers for positions 0 to {len(samples) - 1}"
            )
    return {position: advantage for position, advantage in advantages.items() if samples[position].valid}


class _ScoredAnswers:
    """Rewards, by rollout, of the answers at one position of a group's rollouts, and their advantages."""

    def __init__(self, rewards: Mapping[int, float], *, scale_by_std: bool) -> None:
        self.rewards = rewards
        self.advantages = _centred(rewards, scale_by_std=scale_by_std)


def _rewards_by_answer(samples: Iterable[TrainingSample]) -> dict[tuple[str, int], dict[int, float]]:
    """(group, answer) -> rollout index -> reward, of valid samples."""
    rewards: dict[tuple[str, int], dict[int, float]] = {}
    for sample in samples:
        for answer, _, _ in sample.answers if sample.valid else ():
            if answer in sample.step_rewards:
                rewards.setdefault((sample.group, answer), {})[sample.index] = sample.step_rewards[answer]
    return rewards


def _centred(rewards: Mapping[int, float], *, scale_by_std: bool) -> dict[int, float]:
    """Rollout index -> reward minus group mean, scaled; empty without signal."""
    if not has_signal(rewards.values()):
        return {}
    mean = fmean(rewards.values())
    scale = stdev(rewards.values()) + STD_FLOOR if scale_by_std else 1.0
    return {index: (reward - mean) / scale for index, reward in rewards.items()}
