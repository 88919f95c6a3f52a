"""Parameters of low-rank adapters on one rank."""

from __future__ import annotations

from collections.abc import Sequence

from .layout import Layout
from .shape import ModelShape


def adapter_parameters(shape: ModelShape, layout: Layout, rank: int, targets: Sequence[str]) -> int:
    """Those of the layers of one pipeline stage: the factor on the divided side of a matrix is divided with it."""
    query, key = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    outputs = {"q_proj": query, "k_proj": key, "v_proj": key, "gate_proj": shape.intermediate}
    outputs["up_proj"] = shape.intermediate
    inputs = {"o_proj": query, "down_proj": shape.intermediate}
    divided = sum({**outputs, **inputs}[target] for target in targets) // layout.tensor
    return shape.layers // layout.pipeline * rank * (len(targets) * shape.hidden + divided)
