"""The unit in which weights travel from the training ranks to the engines, and the sums by which they are compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightBucket:
    """The contents of one flat buffer, as SGLang's `load_format="flattened_bucket"` expects them."""

    names: tuple[str, ...]  # Hugging Face parameter names
    dtypes: tuple[str, ...]  # torch names without the prefix, for example "bfloat16"
    shapes: tuple[tuple[int, ...], ...]
    bytes: int


@dataclass(frozen=True)
class WeightPart:
    """What one training rank sends in an update."""

    rank: int
    buckets: tuple[WeightBucket, ...]
    shared: int = 0  # the first of `buckets`, which `helpers` gather with the rank
    helpers: tuple[int, ...] = ()  # other ranks that hold shards of the same tensors


@dataclass(frozen=True)
class WeightSample:
    """Some of an engine's parameters, as SGLang's weight checker sums them."""

    others: tuple[str, ...]  # parts of the names of all other parameters
    sums: tuple[dict[str, str], ...]  # by parameter, on each tensor-parallel rank of an engine
