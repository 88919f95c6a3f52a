"""Megatron's `loss_func` for training passes and for forward-only passes."""

from __future__ import annotations

from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.loss import LossReport, micro_batch_loss
from swerl_trainer.algorithm.packing import MicroBatch
from swerl_trainer.algorithm.policy_loss import TokenTerms
from torch import Tensor


def report_loss(
    output: Tensor, *, micro_batch: MicroBatch, algorithm: AlgorithmSpec, scale: float
) -> tuple[Tensor, LossReport]:
    """Loss function of a training pass; `output` is [2, n] as `logprobs.forward` gives it."""

    def to_device(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.to(output.device)

    terms = TokenTerms(
        logprobs=output[0],
        entropy=output[1],
        advantages=micro_batch.advantages.to(output.device),
        weights=micro_batch.weights.to(output.device),
        sequence=micro_batch.sequence.to(output.device),
        sequences=micro_batch.sequences,
        rollout=to_device(micro_batch.rollout),
        old=to_device(micro_batch.old),
        reference=to_device(micro_batch.reference),
        correction=to_device(micro_batch.correction),
        correction_active=to_device(micro_batch.correction_active),
    )
    report = micro_batch_loss(terms, algorithm)
    return report.loss * scale, report


def keep_output(output: Tensor, *, micro_batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """Loss function of a forward-only pass."""
    return output.new_zeros(()), output.detach()
