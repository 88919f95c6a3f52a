"""Importance weights for tokens that were sampled with other probabilities than the trainer computes: by an engine that
rounds differently, or by older weights.

Guarantees: a rejected token has no part in the loss and none in its normaliser; weights have no gradient.

Sources: truncated importance sampling, Yao et al. 2025 ("Your efficient RL framework secretly brings you off-policy RL
training"); masked importance sampling, its sequence and geometric levels and the veto, Liu et al. 2025 ("When speed
kills stability"); self-normalised weights, Owen 2013, ch. 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from swerl_api import AlgorithmSpec
from swerl_api.algorithm import CorrectionSpec, RatioLevel
from torch import Tensor

MAX_LOG_RATIO = 20.0  # beyond it exp() overflows


@dataclass(frozen=True)
class ImportanceWeights:
    """Per token [n]: the weight, whether a bound changed it, and whether the token leaves the loss."""

    weights: Tensor  # float32
    active: Tensor  # float32, 0 or 1
    rejected: Tensor  # bool


def correction_of(algorithm: AlgorithmSpec) -> CorrectionSpec:
    """The correction with `auto` resolved: stale tokens never count as on-policy."""
    chosen = algorithm.correction
    if chosen.mode != "auto":
        return chosen
    stale = algorithm.max_staleness > 0 and algorithm.old_logprobs == "trainer"
    return chosen.model_copy(update={"mode": "truncate" if stale else "none"})


def needs_whole_batch(correction: CorrectionSpec) -> bool:
    """Whether the weights of a token depend on other sequences, or tokens leave the loss."""
    rejects = correction.mode == "mask" or correction.veto > 0 or correction.rejection is not None
    return rejects or (correction.batch_normalisation and correction.mode != "none")


def importance_weights(
    trainer: Tensor, rollout: Tensor, sequence: Tensor, sequences: int, correction: CorrectionSpec
) -> ImportanceWeights:
    """Weights of tokens with log-probabilities `trainer` and `rollout` [n]; `sequence` [n] (int64) is their sequence.

    `batch_normalisation` divides by the mean over what is given: the tokens, or at the other levels the sequences, that
    are not rejected.
    """
    log_ratio = trainer.detach() - rollout
    rejected = torch.zeros_like(log_ratio, dtype=torch.bool)
    if correction.veto:
        vetoed = (_ratio(log_ratio) < correction.veto).long()
        rejected |= sequence.new_zeros(sequences).index_add(0, sequence, vetoed)[sequence] > 0
    if correction.rejection is not None:
        at_level = ratio_at_level(log_ratio, sequence, sequences, correction.rejection.level)
        rejected |= _outside(at_level, correction.rejection.low, correction.rejection.high)
    if correction.mode in ("none", "auto"):
        return ImportanceWeights(torch.ones_like(log_ratio), torch.zeros_like(log_ratio), rejected)
    ratio = ratio_at_level(log_ratio, sequence, sequences, correction.level)
    low = 0.0 if correction.mode == "truncate" else correction.low
    outside = _outside(ratio, low, correction.high)
    if correction.mode == "mask":
        rejected = rejected | outside
    weights = ratio.clamp(low, correction.high)
    if correction.batch_normalisation:
        weights = weights / _mean(weights, sequence, ~rejected, per_sequence=correction.level != "token")
    return ImportanceWeights(weights, outside.float(), rejected)


def mismatch(trainer: Tensor, rollout: Tensor) -> dict[str, Tensor]:
    """Per-token measures [n] of how far the engine's probabilities are from the trainer's.

    `mismatch_kl` is the k3 estimate (Schulman 2020) of KL(engine || trainer): never negative, 0 when they agree.
    """
    log_ratio = (trainer.detach() - rollout).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return {"mismatch_kl": log_ratio.expm1() - log_ratio, "logprob_abs_diff": log_ratio.abs()}


def _ratio(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def ratio_at_level(log_ratio: Tensor, sequence: Tensor, sequences: int, level: RatioLevel) -> Tensor:
    """Probability ratio [n]: of each token, or of its sequence as the product or the geometric mean of its tokens'."""
    if level == "token":
        return _ratio(log_ratio)
    total = log_ratio.new_zeros(sequences).index_add(0, sequence, log_ratio)
    if level == "geometric":
        total = total / torch.bincount(sequence, minlength=sequences).clamp(min=1)
    return _ratio(total)[sequence]


def _outside(ratio: Tensor, low: float, high: float) -> Tensor:
    return (ratio < low) | (ratio > high)


def _mean(weights: Tensor, sequence: Tensor, kept: Tensor, *, per_sequence: bool) -> Tensor:
    """Mean over the kept tokens, or over the sequences with a kept token; 1 when nothing is kept."""
    if not bool(kept.any()):
        return weights.new_ones(())
    if not per_sequence:
        return weights[kept].mean()
    counts = torch.bincount(sequence[kept])
    return (weights[kept] / counts[sequence[kept]]).sum() / counts.count_nonzero()
