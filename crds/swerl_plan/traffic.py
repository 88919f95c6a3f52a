"""Bytes that a step moves, and about how long it takes: the measure by which layouts are compared.

Guarantees: pure; bytes are those sent by one rank, at most, since every episode counts with its whole context. Seconds
serve to order layouts, not to promise a speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .adapters import adapter_parameters, trained_parameters
from .layout import Layout
from .memory import FP32, STATE, TrainingSettings
from .shape import ModelShape

FLOPS = 0.4 * 989e12  # per second of a GPU: dense bfloat16 of an H100, at the utilisation that training reaches
NVLINK, NETWORK, PCIE = 3e11, 2.5e10, 2e10  # bytes per second of a GPU, in one direction


@dataclass(frozen=True)
class StepWork:
    """What a job trains per step."""

    tokens: int  # of all sequences
    context: int  # tokens of one sequence
    updates: int  # of the optimizer
    forwards: int  # forward passes without gradient, for log-probabilities


@dataclass(frozen=True)
class Traffic:
    """One step."""

    sent: Mapping[str, int]  # bytes that one rank sends, by what they are for
    update: int  # bytes to each engine GPU per weight update
    checkpoint: int  # bytes of one checkpoint
    seconds: float  # of the training step, without rollouts


def step_traffic(shape: ModelShape, layout: Layout, settings: TrainingSettings, work: StepWork) -> Traffic:
    """Traffic and time of a step."""
    tokens = work.tokens / (layout.data * layout.context)
    sent = _activations(shape, layout, settings, work, tokens) | _parameters(shape, layout, settings, work)
    speeds = {axis: NETWORK if layout.crosses_pods(axis) else NVLINK for axis in sent} | {"offload": PCIE}
    seconds = sum(size / speeds[axis] for axis, size in sent.items())
    return Traffic(
        sent={axis: round(size) for axis, size in sent.items()},
        update=settings.bytes_per_weight * shape.parameters,
        checkpoint=(settings.bytes_per_weight + STATE) * _trained(shape, settings),
        seconds=seconds + _compute(shape, layout, settings, work, tokens),
    )


def _trained(shape: ModelShape, settings: TrainingSettings) -> int:
    """All parameters that are trained."""
    if not settings.adapter_rank:
        return shape.parameters
    return adapter_parameters(shape, Layout(pods=1, gpus=1), settings.adapter_rank, settings.adapter_targets)


def _activations(
    shape: ModelShape, layout: Layout, settings: TrainingSettings, work: StepWork, tokens: float
) -> dict[str, float]:
    """What tensor, context, pipeline and expert parallelism exchange of tokens."""
    passes = _passes(settings, work)
    layers = shape.layers / layout.pipeline
    row = settings.bytes_per_weight * shape.hidden * tokens
    t, c, e = layout.tensor, layout.context, layout.expert
    found: dict[str, float] = {}
    if t > 1:
        found["tensor"] = passes * layers * 4 * row * (t - 1) / t
    if c > 1:
        kv = settings.bytes_per_weight * 2 * shape.kv_heads * shape.head_size / t * tokens
        found["context"] = passes * layers * kv * (c - 1)
    if layout.pipeline > 1:
        found["pipeline"] = layout.virtual * (2 + work.forwards) * row / t
    if e > 1 and shape.experts:
        found["expert"] = passes * layers * 2 * row / t * shape.experts.per_token * (e - 1) / e
    return found


def _passes(settings: TrainingSettings, work: StepWork) -> int:
    """A pass forward, one backward that counts twice, what is recomputed, and passes without gradient."""
    return 3 + work.forwards + (1 if settings.recompute == "full" else 0)


def _parameters(shape: ModelShape, layout: Layout, settings: TrainingSettings, work: StepWork) -> dict[str, float]:
    """Gradients to the shards of the optimizer, new weights back."""
    adapters = settings.adapter_rank, settings.adapter_targets
    parameters = trained_parameters(shape, layout, layout.pipeline - 1, *adapters)
    found: dict[str, float] = {}
    per_parameter = FP32 + settings.bytes_per_weight
    shards, expert_shards = layout.optimizer_shards, layout.expert_shards
    moved = parameters.shared * (shards - 1) / shards + parameters.experts * (expert_shards - 1) / expert_shards
    if moved:
        found["data"] = work.updates * per_parameter * moved
    if settings.offload and layout.gpus:
        found["offload"] = work.updates * 2 * per_parameter * parameters.owned(layout)
    return found


def _compute(shape: ModelShape, layout: Layout, settings: TrainingSettings, work: StepWork, tokens: float) -> float:
    """Seconds of arithmetic, with the pipeline's idle time."""
    share = layout.tensor * layout.pipeline
    per_pass = shape.forward_flops([work.context]) / work.context * tokens / share
    idle = (layout.pipeline - 1) / layout.virtual / max(1.0, tokens / settings.tokens)
    return _passes(settings, work) * per_pass / FLOPS * (1 + idle)
