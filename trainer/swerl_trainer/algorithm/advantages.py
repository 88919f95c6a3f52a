"""Group-relative advantages of one step (GRPO, Shao et al. 2024, eq. 3; without the scale: Dr. GRPO, Liu et al. 2025).

Guarantees: a rollout ended by infrastructure never moves its group's statistics; a group with fewer than two valid
rollouts, or with equal rewards, yields no gradient; a trajectory cut into several samples counts once. With rewards per
answer, an answer is compared with those at the same position in its group. An answer that the judge did not score, or
that no other rollout reaches, gets the advantage of the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.training_sample import TrainingSample

EQUAL_REWARDS = 1e-12  # spread below which a group's rewards count as equal
STD_FLOOR = 1e-6  # added to the standard deviation so that near-equal rewards do not explode


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
        place: _ScoredAnswers(rewards, scale_by_std=scale_by_std)
        for place, rewards in _rewards_by_answer(samples).items()
    }
    found: dict[int, list[tuple[int, int, float]]] = {}
    for position, sample in enumerate(samples):
        if not sample.valid:
            continue
        for answer, start, end in sample.answers:
            place = scored.get((sample.group, answer))
            alone = place is None or sample.index not in place.rewards or len(place.rewards) < 2
            advantage = outcomes.get(position) if place is None or alone else place.advantages.get(sample.index)
            if advantage is not None:
                found.setdefault(position, []).append((start, end, advantage))
    return found


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
        known = rewards.setdefault(sample.group, {}).setdefault(sample.index, sample.reward)
        if known != sample.reward:
            raise AlgorithmError(f"{sample.name}: reward {sample.reward}, other samples of its trajectory {known}")
    for group, index in partly_invalid:
        rewards.get(group, {}).pop(index, None)
    return rewards


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
