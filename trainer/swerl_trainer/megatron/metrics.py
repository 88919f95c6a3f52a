"""Metrics of a training step, gathered over micro-batches and data-parallel ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
import torch.distributed as dist
from swerl_trainer.algorithm.batch import Batch
from swerl_trainer.algorithm.loss import LOSSES, MAXIMA, SUMS, LossReport

from megatron.core import parallel_state

# Every key of a step's metrics. Means are weighted as the loss is.
METRICS: dict[str, str] = {
    "loss": "the minimised loss",
    "policy_loss": "the loss without KL and entropy terms",
    "kl": "estimate (klEstimator) of KL(policy || reference), when klCoef > 0",
    "entropy": "entropy of the policy at the trained tokens, nats",
    "ratio": "probability ratio to the policy that began the step",
    "clip_fraction": "fraction of tokens whose gradient the clip removed",
    "update_kl": "mean log-ratio of the policy that began the step to the current one",
    "correction_weight": "importance weight that repairs the engine/trainer difference",
    "correction_active": "fraction of tokens whose importance weight met a bound",
    "mismatch_kl": "k3 estimate of KL(engine || trainer) over the sampled tokens",
    "logprob_abs_diff": "mean |trainer - engine| log-probability",
    "logprob_abs_diff_max": "largest |trainer - engine| log-probability",
    "logprob": "log-probability of the trained tokens",
    "grad_norm": "norm of the gradient before clipping",
    "lr": "learning rate",
    "sequences": "sequences in the batch",
    "tokens": "tokens in the batch",
    "trainable_tokens": "tokens in the loss",
    "micro_batches": "micro-batches per rank",
    "rejected_tokens": "tokens that the correction took out of the loss",
    "updates": "optimiser steps taken since the start",
    "new_updates": "optimiser steps of this batch",
    "skipped_updates": "share of this batch's optimiser steps that were skipped: gradients were not finite",
    "load_seconds": "time the ranks read the model, and the checkpoint that the attempt resumed from",
    "logprob_seconds": "time of log-probability passes of old and reference policy, slowest rank",
    "forward_backward_seconds": "time of forward and backward passes, slowest rank",
    "optimizer_seconds": "time of the optimizer, gathering of weights included, slowest rank",
    "save_seconds": "time the ranks stopped for the last checkpoint",
    "update_seconds": "time the ranks gathered the last weights for the engines",
    "switch_seconds": "time the ranks passed their GPUs to engines on them with the last weights, and took them back",
    "load_gpu_gib": "most GPU memory while the model was read, fullest rank; so for the other phases",
    "logprob_gpu_gib": "most GPU memory in log-probability passes",
    "forward_backward_gpu_gib": "most GPU memory in training passes",
    "optimizer_gpu_gib": "most GPU memory in the optimizer",
    "save_gpu_gib": "most GPU memory in the last checkpoint",
    "update_gpu_gib": "most GPU memory in the last weight update",
    "switch_gpu_gib": "most GPU memory of the ranks at the last switch to engines on their GPUs",
    "tflops_per_gpu": "10^12 operations per second and rank in training passes and optimizer",
    "mfu": "the same as share of the card's peak, where that is known",
    "seconds": "time the step took",
    "tokens_per_second": "tokens of the batch over that time, all ranks together",
}


def reduce_reports(
    reports: Sequence[LossReport], data_group: dist.ProcessGroup, device: torch.device
) -> dict[str, float]:
    """Metrics of one optimiser step from this rank's micro-batches; the same on all ranks of `data_group`."""
    sums = torch.zeros(2, len(SUMS), dtype=torch.float64, device=device)  # value, whether any micro-batch had it
    maxima = torch.full((len(MAXIMA),), -1.0, dtype=torch.float64, device=device)
    for report in reports:
        for name, value in report.sums.items():
            column = SUMS.index(name)
            sums[0, column] += value
            sums[1, column] = 1.0
        for name, value in report.maxima.items():
            position = MAXIMA.index(name)
            maxima[position] = torch.maximum(maxima[position], value.double())
    dist.all_reduce(sums, group=data_group)
    dist.all_reduce(maxima, op=dist.ReduceOp.MAX, group=data_group)
    totals = {name: float(sums[0, i]) for i, name in enumerate(SUMS) if sums[1, i] > 0}
    weight = totals.pop("weight", 0.0) or 1.0
    metrics = {name: value if name in LOSSES else value / weight for name, value in totals.items()}
    return metrics | {name: float(maxima[i]) for i, name in enumerate(MAXIMA) if maxima[i] >= 0}


def last_stage_metrics(reports: Sequence[LossReport], device: torch.device) -> dict[str, float]:
    """Metrics of the last pipeline stage, on every rank."""
    metrics: list[dict[str, float]] = [{}]
    if parallel_state.is_pipeline_last_stage():
        metrics = [reduce_reports(reports, parallel_state.get_data_parallel_group(), device)]
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        source = parallel_state.get_pipeline_model_parallel_last_rank()
        dist.broadcast_object_list(metrics, src=source, group=parallel_state.get_pipeline_model_parallel_group())
    return metrics[0]


def step_counts(batch: Batch, parts: Sequence[Batch], seconds: float) -> dict[str, float]:
    """Sizes of a step's `batch`, whose `parts` were trained in `seconds`."""
    return {
        "rejected_tokens": float(batch.trainable_tokens - sum(part.trainable_tokens for part in parts)),
        "sequences": float(len(batch)),
        "tokens": float(batch.tokens),
        "trainable_tokens": float(batch.trainable_tokens),
        "seconds": seconds,
        "tokens_per_second": batch.tokens / seconds if seconds else 0.0,
    }


def utilisation(flops: float, seconds: Mapping[str, float], peak: float | None) -> dict[str, float]:
    """Operations per second and rank of a step that does `flops` in all, recomputation not counted, and their share of
    the card's `peak`; {} when nothing was trained."""
    total = seconds.get("forward_backward_seconds", 0.0) + seconds.get("optimizer_seconds", 0.0)
    if not total:
        return {}
    speed = flops / total / dist.get_world_size()
    return {"tflops_per_gpu": speed / 1e12} | ({"mfu": speed / peak} if peak else {})


def over_minibatches(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Metrics of a batch from its optimiser steps that have them: the largest of maxima, the mean of the rest."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: (max if key in MAXIMA else fmean)(part[key] for part in parts if key in part) for key in keys}
