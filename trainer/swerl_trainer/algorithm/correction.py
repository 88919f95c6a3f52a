"""Importance weights for tokens that an engine sampled with slightly other probabilities than the trainer computes.

Sources: truncated importance sampling, Yao et al. 2025 ("Your efficient RL framework secretly brings you off-policy RL
training"); masked importance sampling, Liu et al. 2025 ("When speed kills stability").
"""

from __future__ import annotations

import torch
from swerl_api.algorithm import CorrectionSpec
from torch import Tensor

MAX_LOG_RATIO = 20.0  # beyond it exp() overflows


def correction_weights(
    trainer: Tensor, rollout: Tensor, sequence: Tensor, sequences: int, correction: CorrectionSpec
) -> tuple[Tensor, Tensor]:
    """Weight per token, detached, and whether a bound changed it; both float32 [n].

    `trainer` and `rollout` are log-probabilities [n], `sequence` [n] (int64) is the token's sequence.
    """
    log_ratio = trainer.detach() - rollout
    if correction.mode == "none":
        return torch.ones_like(log_ratio), torch.zeros_like(log_ratio)
    if correction.level == "sequence":
        log_ratio = log_ratio.new_zeros(sequences).index_add(0, sequence, log_ratio)[sequence]
    ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    outside = (ratio < correction.low) | (ratio > correction.high)
    weight = ratio.clamp(correction.low, correction.high) if correction.mode == "tis" else ratio * ~outside
    return weight, outside.float()


def mismatch(trainer: Tensor, rollout: Tensor) -> dict[str, Tensor]:
    """Per-token measures [n] of how far the engine's probabilities are from the trainer's.

    `mismatch_kl` is the k3 estimate (Schulman 2020) of KL(engine || trainer): never negative, 0 when they agree.
    """
    log_ratio = (trainer.detach() - rollout).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return {"mismatch_kl": log_ratio.expm1() - log_ratio, "logprob_abs_diff": log_ratio.abs()}
