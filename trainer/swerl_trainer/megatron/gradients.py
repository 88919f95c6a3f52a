"""A check of the gradients before they reach the weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from megatron.core.distributed import DistributedDataParallel


def gradients_are_finite(modules: Sequence[DistributedDataParallel]) -> bool:
    """Whether every gradient of every rank is finite; a collective of all ranks, the same answer on each.

    The norm of a buffer is read, not its elements: it is finite when they are, unless their squares overflow, and then
    the clipping of the optimizer would fail too.
    """
    buffers = [buffer for module in modules for buffer in [*module.buffers, *module.expert_parallel_buffers]]
    norms = [buffer.grad_data.norm() for buffer in buffers]
    infinite = torch.stack([~norm.isfinite() for norm in norms]).any().to(torch.int32)
    dist.all_reduce(infinite, op=dist.ReduceOp.MAX)
    return not bool(infinite)
