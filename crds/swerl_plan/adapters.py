"""Parameters that are trained: all of a rank's, or its low-rank adapters alone."""

from __future__ import annotations

from collections.abc import Sequence

from .layout import Layout, RankParameters, rank_parameters
from .shape import ModelShape


def trained_parameters(
    shape: ModelShape, layout: Layout, stage: int, adapter_rank: int, targets: Sequence[str]
) -> RankParameters:
    """Those of a rank of pipeline stage `stage`; `adapter_rank` 0 means that all weights are trained."""
    if not adapter_rank:
        return rank_parameters(shape, layout, stage)
    return RankParameters(adapter_parameters(shape, layout, adapter_rank, targets), 0)


def adapter_parameters(shape: ModelShape, layout: Layout, rank: int, targets: Sequence[str]) -> int:
    """Those of the layers of one pipeline stage: the factor on the divided side of a matrix is divided with it."""
    query, key = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    sizes = {"q_proj": query, "k_proj": key, "v_proj": key, "o_proj": query}
    sizes |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), shape.intermediate)
    divided = sum(sizes[target] for target in targets) // layout.tensor
    return shape.layers // layout.pipeline * rank * (len(targets) * shape.hidden + divided)
