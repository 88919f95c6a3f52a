"""Estimates of KL(policy || reference) per token (Schulman 2020, "Approximating KL divergence"), and the penalty that
they are in rewards (Ouyang et al. 2022, eq. 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from swerl_trainer.algorithm.correction import MAX_LOG_RATIO
from swerl_trainer.algorithm.training_sample import TrainingSample
from torch import Tensor


def kl_estimate(policy: Tensor, reference: Tensor, estimator: Literal["k1", "k2", "k3"]) -> Tensor:
    """Per-token estimate from log-probabilities of tokens that the policy sampled.

    k1 = log p - log q; k2 = k1^2 / 2; k3 = q/p - 1 + k1.
    """
    log_ratio = (policy - reference).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio.square() / 2
    return (-log_ratio).expm1() + log_ratio


def penalised(
    samples: Sequence[TrainingSample], divergences: Mapping[int, float], coefficient: float
) -> list[TrainingSample]:
    """`samples` with rewards lowered by `coefficient` times the sum of the trajectory's `divergences`, by position."""
    total: dict[tuple[str, int], float] = {}
    for position, divergence in divergences.items():
        trajectory = samples[position].trajectory
        total[trajectory] = total.get(trajectory, 0.0) + divergence
    return [
        replace(sample, reward=sample.reward - coefficient * total.get(sample.trajectory, 0.0)) for sample in samples
    ]
