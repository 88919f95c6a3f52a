"""One policy step on the training ranks: penalised rewards, advantages, learning rate, updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Protocol

from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm import (
    Batch,
    TrainingSample,
    advantage_metrics,
    demonstration_batch,
    policy_batch,
    rollout_batch,
)
from swerl_trainer.algorithm.kl import kl_estimate, penalised
from swerl_trainer.algorithm.schedule import learning_rate
from swerl_trainer.checkpoints import FileSum
from torch import Tensor

PROBE_SAMPLES = 4  # sequences compared when a step trained on nothing
LARGEST_MISMATCH = "logprob_abs_diff_max"


class TrainingRanks(Protocol):
    """The training ranks, see `TrainGroup`."""

    @property
    def size(self) -> int: ...

    @property
    def stalls(self) -> int: ...

    async def train_step(self, batch: Batch) -> dict[str, float]: ...

    async def log_probs(self, batch: Batch, *, reference: bool = False) -> list[Tensor]: ...

    async def set_learning_rate(self, lr: float) -> None: ...

    async def begin_save(self, folder: Path) -> None: ...

    async def complete_save(self) -> dict[str, FileSum]: ...

    async def save_hf(self, folder: Path) -> None: ...

    async def trace_next_step(self, folder: Path) -> None: ...

    async def release_memory(self) -> None: ...


async def train_policy(
    ranks: TrainingRanks, samples: Sequence[TrainingSample], algorithm: AlgorithmSpec, step: int
) -> dict[str, float]:
    """Train on the samples of step `step` (from 0); metrics named in METRICS.

    `new_updates` is 0 when no weight changed: no sample had a gradient, or gradients were not finite.
    """
    metrics: dict[str, float] = {}
    if algorithm.kl_coef and algorithm.kl_in == "reward":
        samples, metrics = await _with_kl_penalty(ranks, samples, algorithm)
    batch = policy_batch(samples, algorithm)
    if len(batch):
        lr = learning_rate(algorithm.lr, algorithm.lr_schedule, step=step, steps=algorithm.steps)
        await ranks.set_learning_rate(lr)
    metrics |= {**await ranks.train_step(batch), **advantage_metrics(batch)}
    if LARGEST_MISMATCH not in metrics:
        metrics |= await _measure_mismatch(ranks, samples)
    return metrics


async def _with_kl_penalty(
    ranks: TrainingRanks, samples: Sequence[TrainingSample], algorithm: AlgorithmSpec
) -> tuple[Sequence[TrainingSample], dict[str, float]]:
    positions, batch = rollout_batch(samples)
    if not positions:
        return samples, {}
    policy, reference = await ranks.log_probs(batch), await ranks.log_probs(batch, reference=True)
    sums = [
        float(kl_estimate(policy_values, reference_values, algorithm.kl_estimator).sum())
        for policy_values, reference_values in zip(policy, reference, strict=True)
    ]
    kl = sum(sums) / batch.trainable_tokens
    return penalised(samples, dict(zip(positions, sums, strict=True)), algorithm.kl_coef), {"kl": kl}


async def _measure_mismatch(ranks: TrainingRanks, samples: Sequence[TrainingSample]) -> dict[str, float]:
    """The difference of log-probabilities, when the step itself did not measure it."""
    usable = [s for s in samples if s.valid and s.logprobs and s.trainable_tokens][:PROBE_SAMPLES]
    if not usable:
        return {}
    batch: Batch = demonstration_batch(usable)
    values = await ranks.log_probs(batch)
    gaps = [
        (value - sequence.rollout_logprobs)[sequence.mask].abs()
        for value, sequence in zip(values, batch.sequences, strict=True)
        if sequence.rollout_logprobs is not None
    ]
    largest, mean = max(float(gap.max()) for gap in gaps), fmean(float(gap.mean()) for gap in gaps)
    return {LARGEST_MISMATCH: largest, "logprob_abs_diff": mean}
