"""The loss of one micro-batch.

Guarantees: it is a plain weighted sum over tokens whose weights sum to 1 over the whole batch, so the losses of all
micro-batches and data-parallel ranks add up to the batch's loss, and every reported sum adds up to a weighted mean.

Sources: clipped objective, Schulman et al. 2017; clip-higher and token aggregation, DAPO (Yu et al. 2025); sequence
ratio, GSPO (Zheng et al. 2025, eq. 5-7); k3 estimate of the KL divergence, Schulman 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from swerl_api.algorithm import AlgorithmSpec, CorrectionSpec
from swerl_trainer.algorithm.correction import MAX_LOG_RATIO, correction_weights, mismatch
from swerl_trainer.algorithm.errors import AlgorithmError
from torch import Tensor

SUMS = (
    "loss", "policy_loss", "kl", "entropy", "ratio", "clip_fraction", "update_kl", "correction_weight",
    "correction_active", "mismatch_kl", "logprob_abs_diff", "logprob",
)  # fmt: skip
MAXIMA = ("logprob_abs_diff_max",)


@dataclass(frozen=True)
class TokenTerms:
    """Inputs of the loss for the `n` trainable tokens of a micro-batch; tensors are 1-D [n], float32 by default."""

    logprobs: Tensor  # of the current policy, with graph
    advantages: Tensor
    weights: Tensor
    sequence: Tensor  # int64, index of the token's sequence
    sequences: int
    entropy: Tensor | None = None
    rollout: Tensor | None = None  # log-probabilities of the sampling engine
    old: Tensor | None = None  # of the policy that began the step; None: the current one
    reference: Tensor | None = None


@dataclass(frozen=True)
class LossReport:
    """`loss` has a graph; `sums` (keys SUMS) add over micro-batches and ranks, `maxima` (keys MAXIMA) take the max."""

    loss: Tensor
    sums: Mapping[str, Tensor]
    maxima: Mapping[str, Tensor]


def micro_batch_loss(terms: TokenTerms, algorithm: AlgorithmSpec) -> LossReport:
    """Loss and metrics of one micro-batch. Raises AlgorithmError when `algorithm` needs a term that is missing."""
    old = terms.logprobs.detach() if terms.old is None else terms.old
    metrics = _mismatch_metrics(terms, old, algorithm)
    per_token = _policy_loss(terms, old, metrics, algorithm)
    metrics["policy_loss"] = per_token
    if algorithm.kl_coef:
        metrics["kl"] = _reference_kl(terms)
        per_token = per_token + algorithm.kl_coef * metrics["kl"]
    if terms.entropy is not None:
        metrics["entropy"] = terms.entropy
    if algorithm.entropy_coef:
        per_token = per_token - algorithm.entropy_coef * _required(terms.entropy, "the entropy", "entropy_coef")
    metrics |= {"loss": per_token, "logprob": terms.logprobs}
    difference = metrics.get("logprob_abs_diff", terms.logprobs.new_zeros(0))
    return LossReport(
        loss=(per_token * terms.weights).sum(),
        sums={name: (values.detach() * terms.weights).sum() for name, values in metrics.items()},
        maxima={"logprob_abs_diff_max": difference.max()} if difference.numel() else {},
    )


def supervised(algorithm: AlgorithmSpec) -> AlgorithmSpec:
    """The loss of demonstrations: cross entropy, without the terms that compare policies."""
    changes = {"name": "sft", "kl_coef": 0.0, "entropy_coef": 0.0, "temperature": 1.0, "correction": CorrectionSpec()}
    return algorithm.model_copy(update=changes)


def _policy_loss(terms: TokenTerms, old: Tensor, metrics: dict[str, Tensor], algorithm: AlgorithmSpec) -> Tensor:
    if algorithm.name == "sft":
        return -terms.logprobs
    correction = metrics.get("correction_weight", torch.ones_like(old))
    if algorithm.name == "reinforce":
        return -correction * terms.advantages * terms.logprobs
    ratio = _ratio(terms, old, per_sequence=algorithm.name == "gspo")
    clipped = ratio.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high)
    unclipped_loss, clipped_loss = -ratio * terms.advantages, -clipped * terms.advantages
    metrics |= {
        "ratio": ratio,
        "clip_fraction": (clipped_loss > unclipped_loss).float(),
        "update_kl": old - terms.logprobs,
    }
    return correction * torch.maximum(unclipped_loss, clipped_loss)


def _ratio(terms: TokenTerms, old: Tensor, *, per_sequence: bool) -> Tensor:
    """Probability ratio to the old policy [n]: per token, or the geometric mean over each sequence."""
    log_ratio = terms.logprobs - old
    if per_sequence:
        total = log_ratio.new_zeros(terms.sequences).index_add(0, terms.sequence, log_ratio)
        count = torch.bincount(terms.sequence, minlength=terms.sequences).clamp(min=1)
        log_ratio = (total / count)[terms.sequence]
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _mismatch_metrics(terms: TokenTerms, old: Tensor, algorithm: AlgorithmSpec) -> dict[str, Tensor]:
    if terms.rollout is None:
        if algorithm.correction.mode != "none" and algorithm.name != "sft":
            raise AlgorithmError(f"correction {algorithm.correction.mode} needs rollout log-probabilities")
        return {}
    weight, active = correction_weights(old, terms.rollout, terms.sequence, terms.sequences, algorithm.correction)
    return {"correction_weight": weight, "correction_active": active, **mismatch(old, terms.rollout)}


def _reference_kl(terms: TokenTerms) -> Tensor:
    log_ratio = _required(terms.reference, "reference log-probabilities", "kl_coef") - terms.logprobs
    log_ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return log_ratio.expm1() - log_ratio


def _required(value: Tensor | None, what: str, setting: str) -> Tensor:
    if value is None:
        raise AlgorithmError(f"{setting} > 0 needs {what}")
    return value
