"""Memory of one inference engine, and what keeps it from serving a model.

Guarantees: pure; engines reserve a fixed fraction of each GPU for weights and cache, as SGLang does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .memory import GIB
from .shape import ModelShape

SHARED_FRACTION = 0.5  # of a GPU that the trainer uses in turn; the rest is the trainer's
OWN_FRACTION = 0.85  # what SGLang reserves by default of a GPU with 80 GB, about
RELEASED_ENGINE_BYTES = 2 * GIB  # CUDA context and graphs of an engine that gave its memory back
GPU_PROCESS = 6 * GIB  # host memory of an engine, per GPU
CPU_PROCESS = 2 * GIB  # host memory of an engine without a GPU, beside its weights


@dataclass(frozen=True)
class EngineSettings:
    """What of a job decides an engine's memory."""

    field: str  # of the spec that has the engines
    gpus: int  # tensor-parallel size; 0 runs on CPU
    context: int  # tokens of prompt and answer together
    bytes_per_weight: int
    shares_gpu: bool
    arguments: Mapping[str, Any]

    @property
    def fraction(self) -> float:
        """Part of the GPU for weights and cache."""
        chosen = self.arguments.get("mem-fraction-static")
        return float(chosen) if chosen is not None else SHARED_FRACTION if self.shares_gpu else OWN_FRACTION

    @property
    def parallel(self) -> int:
        """GPUs that share the model's matrices."""
        return max(1, int(self.arguments.get("tp-size") or self.gpus))


@dataclass(frozen=True)
class EngineMemory:
    """Bytes on each GPU of an engine (on the host, without GPUs)."""

    weights: int
    cache: int | None  # None: the size of the GPU is not known
    cache_per_token: int
    host: int  # of the whole engine

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of all requests together that the cache holds."""
        return None if self.cache is None else self.cache // self.cache_per_token


def engine_memory(shape: ModelShape, engine: EngineSettings, gpu_memory: int | None) -> EngineMemory:
    """What the engine's weights leave for its cache."""
    parallel = engine.parallel
    weights = engine.bytes_per_weight * shape.parameters // parallel
    kv_heads = max(1, shape.kv_heads // parallel)  # more GPUs than heads hold copies
    cache_bytes = 1 if "fp8" in str(engine.arguments.get("kv-cache-dtype", "")) else engine.bytes_per_weight
    per_token = 2 * shape.layers * kv_heads * shape.head_size * cache_bytes
    if not engine.gpus:
        return EngineMemory(weights, None, per_token, CPU_PROCESS + weights)
    cache = None if gpu_memory is None else int(engine.fraction * gpu_memory) - weights
    return EngineMemory(weights, cache, per_token, engine.gpus * GPU_PROCESS)


def engine_problems(shape: ModelShape, engine: EngineSettings, gpu_memory: int | None) -> Iterator[str]:
    """Why the engine cannot serve the model; nothing when it can."""
    parallel, field = engine.parallel, engine.field
    if shape.heads % parallel or (shape.kv_heads % parallel and parallel % shape.kv_heads):
        yield (
            f"{field} {parallel} cannot divide {shape.heads} attention heads and {shape.kv_heads} key/value heads:"
            " choose a divisor"
        )
    intermediate = shape.experts.intermediate if shape.experts else shape.intermediate
    if intermediate % parallel:
        yield f"{field} {parallel} cannot divide the intermediate size {intermediate}: choose a divisor"
    if engine.context > shape.context:
        yield (
            f"{field.split('.')[0]} needs {engine.context} tokens of context, the model has {shape.context}: lower"
            " contextTokens or choose a model with a longer context"
        )
    memory = engine_memory(shape, engine, gpu_memory)
    if memory.cached_tokens is not None and "quantization" not in engine.arguments:
        yield from _cache_problem(engine, memory, gpu_memory or 0)


def _cache_problem(engine: EngineSettings, memory: EngineMemory, gpu_memory: int) -> Iterator[str]:
    tokens = memory.cached_tokens or 0
    if tokens < engine.context:
        yield (
            f"an engine of {max(1, engine.gpus)} GPU(s) has {engine.fraction:.2f} of {gpu_memory / GIB:.1f} GiB for"
            f" {memory.weights / GIB:.1f} GiB of weights and a cache of {max(0, tokens)} tokens, fewer than one context"
            f" of {engine.context}: raise {engine.field} or mem-fraction-static"
        )
