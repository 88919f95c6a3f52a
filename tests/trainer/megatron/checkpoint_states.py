"""Whole tensors of a checkpoint, whatever layout wrote it."""

from __future__ import annotations

from pathlib import Path

from megatron.core import dist_checkpointing
from torch import Tensor

OPTIMIZER = "optimizer.state."


def optimizer_states(folder: Path) -> dict[str, Tensor]:
    """Tensors of the optimizer, by name."""
    tensors = dist_checkpointing.load_plain_tensors(str(folder))
    return {key: tensor for key, tensor in tensors.items() if key.startswith(OPTIMIZER)}
