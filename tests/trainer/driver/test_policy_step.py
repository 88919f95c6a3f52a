"""One policy step as the driver asks it of the ranks."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_api.algorithm import AlgorithmSpec, LrSchedule
from swerl_trainer.algorithm import Batch, TrainingSample
from swerl_trainer.driver.policy_step import train_policy
from torch import Tensor


class Ranks:
    """Ranks whose log-probabilities are -1, the reference's -3; they keep what they are given."""

    size = 1

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.rates: list[float] = []

    async def train_step(self, batch: Batch) -> dict[str, float]:
        self.batches.append(batch)
        return {"new_updates": float(len(batch) > 0)}

    async def log_probs(self, batch: Batch, *, reference: bool = False) -> list[Tensor]:
        value = -3.0 if reference else -1.0
        return [value * sequence.mask for sequence in batch.sequences]

    async def set_learning_rate(self, lr: float) -> None:
        self.rates.append(lr)

    async def begin_save(self, folder: Any) -> None: ...

    async def save_hf(self, folder: Any) -> None: ...

    async def complete_save(self) -> dict[str, Any]:
        return {}

    async def release_memory(self) -> None: ...


def sample(tokens: int, reward: float, index: int) -> TrainingSample:
    mask = [0] + [1] * tokens
    return TrainingSample([1] * (tokens + 1), mask, [-1.5] * (tokens + 1), reward, True, "g", index, "task")


async def test_kl_penalty_in_rewards_gives_equal_outcomes_a_gradient() -> None:
    ranks = Ranks()
    algorithm = AlgorithmSpec(
        kl_coef=0.1, kl_in="reward", kl_estimator="k1", advantage_normalisation="none", dynamic_filter=False
    )
    metrics = await train_policy(ranks, [sample(3, 1.0, 0), sample(1, 1.0, 1)], algorithm, step=0)
    advantages = [float(sequence.advantages[sequence.mask][0]) for sequence in ranks.batches[0].sequences]
    assert advantages == pytest.approx([-0.2, 0.2])  # rewards 1 - 0.1 * 6 and 1 - 0.1 * 2
    assert metrics["kl"] == pytest.approx(2.0)
    assert all(sequence.reference_logprobs is None for sequence in ranks.batches[0].sequences)


async def test_each_step_has_the_rate_of_the_schedule() -> None:
    ranks = Ranks()
    algorithm = AlgorithmSpec(lr=1.0, steps=4, lr_schedule=LrSchedule(warmup_steps=2, decay="linear"))
    for step in range(4):
        await train_policy(ranks, [sample(3, 1.0, 0), sample(3, -1.0, 1)], algorithm, step=step)
    assert ranks.rates == pytest.approx([0.5, 1.0, 1.0, 0.0])


async def test_step_without_signal_updates_nothing_and_still_measures_the_mismatch() -> None:
    ranks = Ranks()
    metrics = await train_policy(ranks, [sample(3, 1.0, 0), sample(3, 1.0, 1)], AlgorithmSpec(), step=0)
    assert metrics["new_updates"] == 0 and ranks.rates == []
    assert metrics["logprob_abs_diff_max"] == pytest.approx(0.5)
    assert [len(batch) for batch in ranks.batches] == [0]
