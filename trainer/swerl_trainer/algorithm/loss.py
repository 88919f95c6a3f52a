"""The loss of one micro-batch.

Guarantees: it is a plain weighted sum over tokens, so the losses of all micro-batches and data-parallel ranks add up to
the batch's loss; every other reported sum, divided by that of `weight`, adds up to a weighted mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swerl_api import AlgorithmSpec
from swerl_api.algorithm import CorrectionSpec
from swerl_trainer.algorithm.correction import correction_of, importance_weights, mismatch
from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.kl import kl_estimate
from swerl_trainer.algorithm.policy_loss import TokenTerms, policy_loss
from torch import Tensor

SUMS = (
    "loss", "policy_loss", "kl", "entropy", "ratio", "clip_fraction", "update_kl", "correction_weight",
    "correction_active", "mismatch_kl", "logprob_abs_diff", "logprob", "weight",
)  # fmt: skip
LOSSES = ("loss", "policy_loss")  # sums as they are, the others are means
MAXIMA = ("logprob_abs_diff_max",)


@dataclass(frozen=True)
class LossReport:
    """`loss` has a graph; `sums` (keys SUMS) add over micro-batches and ranks, `maxima` (keys MAXIMA) take the max."""

    loss: Tensor
    sums: Mapping[str, Tensor]
    maxima: Mapping[str, Tensor]


def micro_batch_loss(terms: TokenTerms, algorithm: AlgorithmSpec) -> LossReport:
    """Loss and metrics of one micro-batch. Raises AlgorithmError when `algorithm` needs a term that is missing."""
    per_token, metrics = policy_loss(terms, algorithm)
    metrics |= _mismatch_metrics(terms, algorithm)
    if algorithm.name != "sft" and "correction_weight" in metrics:
        per_token = metrics["correction_weight"] * per_token
    metrics["policy_loss"] = per_token
    if algorithm.kl_coef and algorithm.kl_in == "loss":
        reference = _required(terms.reference, "reference log-probabilities", "kl_coef")
        metrics["kl"] = kl_estimate(terms.logprobs, reference, algorithm.kl_estimator)
        per_token = per_token + algorithm.kl_coef * metrics["kl"]
    if terms.entropy is not None:
        metrics["entropy"] = terms.entropy
    if algorithm.entropy_coef:
        per_token = per_token - algorithm.entropy_coef * _required(terms.entropy, "the entropy", "entropy_coef")
    metrics |= {"loss": per_token, "logprob": terms.logprobs}
    difference = metrics.get("logprob_abs_diff", terms.logprobs.new_zeros(0))
    return LossReport(
        loss=(per_token * terms.weights).sum(),
        sums={name: (values.detach() * terms.weights).sum() for name, values in metrics.items()}
        | {"weight": terms.weights.sum()},
        maxima={"logprob_abs_diff_max": difference.max()} if difference.numel() else {},
    )


def supervised(algorithm: AlgorithmSpec) -> AlgorithmSpec:
    """The loss of demonstrations: cross entropy, without the terms that compare policies."""
    none = CorrectionSpec(mode="none")
    changes = {"name": "sft", "kl_coef": 0.0, "entropy_coef": 0.0, "temperature": 1.0, "correction": none}
    return algorithm.model_copy(update=changes)


def _mismatch_metrics(terms: TokenTerms, algorithm: AlgorithmSpec) -> dict[str, Tensor]:
    correction = correction_of(algorithm)
    if terms.rollout is None:
        if correction.mode != "none" and algorithm.name != "sft":
            raise AlgorithmError(f"correction {correction.mode} needs rollout log-probabilities")
        return {}
    trainer = terms.logprobs if algorithm.old_logprobs == "rollout" else terms.old_or_current
    metrics = mismatch(trainer, terms.rollout)
    if terms.correction is not None and terms.correction_active is not None:
        return {"correction_weight": terms.correction, "correction_active": terms.correction_active, **metrics}
    result = importance_weights(trainer, terms.rollout, terms.sequence, terms.sequences, correction)
    return {"correction_weight": result.weights, "correction_active": result.active, **metrics}


def _required(value: Tensor | None, what: str, setting: str) -> Tensor:
    if value is None:
        raise AlgorithmError(f"{setting} > 0 needs {what}")
    return value
