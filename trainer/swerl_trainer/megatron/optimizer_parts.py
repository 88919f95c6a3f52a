"""The states of the distributed optimizer in a checkpoint, as the parts of whole tensors that each rank owns.

Guarantees: a save moves nothing between ranks, and a load reads only what this rank owns; names and shapes in the
checkpoint are those of Megatron's `fully_reshardable` format, so that any layout reads what another wrote.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import ShardedTensor, ShardedTensorFactory
from megatron.core.dist_checkpointing.utils import extract_sharded_tensors_and_factories
from megatron.core.optimizer.cpu_offloading import HybridDeviceOptimizer

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offset and size per dimension


def keep_parts(optimizer: Any) -> None:
    """Let `optimizer`, or each it is chained of, save and load its own parts instead of gathered tensors."""
    for each in getattr(optimizer, "chained_optimizers", [optimizer]):
        each.sharded_param_state_fully_reshardable = partial(_sharded_parts, each)
        each.load_parameter_state_from_fully_reshardable = partial(_take_parts, each)


def boxes(shape: tuple[int, ...], start: int, stop: int) -> Iterator[Box]:
    """The elements `start` to `stop` of a tensor in memory order, as boxes in that order."""
    if start >= stop:
        return
    if len(shape) == 1:
        yield (start,), (stop - start,)
        return
    row = math.prod(shape[1:])
    (first, head), (last, tail) = divmod(start, row), divmod(stop, row)
    if first == last:
        yield from _in_row(first, shape, head, tail)
        return
    if head:
        yield from _in_row(first, shape, head, row)
        first += 1
    if first < last:
        yield (first, *(0 for _ in shape[1:])), (last - first, *shape[1:])
    yield from _in_row(last, shape, 0, tail)


def _in_row(row: int, shape: tuple[int, ...], start: int, stop: int) -> Iterator[Box]:
    return (((row, *offset), (1, *size)) for offset, size in boxes(shape[1:], start, stop))


def _sharded_parts(
    optimizer: Any, weights: dict[str, Any], is_loading: bool = False, metadata: Mapping[str, Any] | None = None
) -> dict[int, dict[str, list[ShardedTensor]]]:
    """By parameter and state the parts of this rank, without data while loading."""
    described = {each.data: each for each in nested_values(extract_sharded_tensors_and_factories(weights)[0])}
    found = {}
    for number, (parameter, start, stop) in enumerate(_owned(optimizer)):
        states = optimizer._get_main_param_and_optimizer_states(parameter)
        places = list(_places(described[parameter], start, stop))
        found[number] = {
            name: [*_parts(name, places, None if is_loading else states[name])]
            for name in ("param", *optimizer.optimizer_state_keys)
        }
    return found


@torch.no_grad()
def _take_parts(optimizer: Any, loaded: Mapping[int, Mapping[str, list[Tensor]]]) -> None:
    for number, (parameter, _, _) in enumerate(_owned(optimizer)):
        states = {name: torch.cat([part.flatten() for part in parts]) for name, parts in loaded[number].items()}
        optimizer._set_main_param_and_optimizer_states(parameter, states)
    if isinstance(optimizer.optimizer, HybridDeviceOptimizer):
        optimizer.optimizer._sync_hdo_state_to_sub_optimizers()


def _owned(optimizer: Any) -> Iterator[tuple[Tensor, int, int]]:
    """Parameters of which this rank has optimizer states, and from which to which of their elements."""
    for by_dtype in optimizer.gbuf_ranges:
        for buckets in by_dtype.values():
            for bucket in buckets:
                for parameter, ranges in bucket["param_map"].items():
                    yield parameter, ranges["param"].start, ranges["param"].end


def _places(
    described: ShardedTensor | ShardedTensorFactory, start: int, stop: int
) -> Iterator[tuple[ShardedTensor, Box]]:
    """Boxes of the elements `start` to `stop`, each in the tensor of the checkpoint that it is a part of."""
    whole = [*nested_values(described.build())] if isinstance(described, ShardedTensorFactory) else [described]
    begin = 0
    for tensor in whole:  # a factory's tensors follow one another in memory
        size = math.prod(tensor.local_shape)
        inside = max(start - begin, 0), min(stop - begin, size)
        yield from ((tensor, box) for box in boxes(tensor.local_shape, *inside))
        begin += size


def _parts(name: str, places: list[tuple[ShardedTensor, Box]], state: Tensor | None) -> Iterator[ShardedTensor]:
    begin = 0
    for tensor, (offset, size) in places:
        leading = (0,) * tensor.prepend_axis_num
        shape = tuple(1 for _ in leading) + size
        end = begin + math.prod(size)
        yield ShardedTensor(
            key=f"optimizer.state.{name}.{tensor.key}",
            data=None if state is None else state.detach().flatten()[begin:end].view(shape),
            dtype=torch.float32,
            local_shape=shape,
            global_shape=tensor.global_shape,
            global_offset=tuple(a + b for a, b in zip(tensor.global_offset, leading + offset, strict=True)),
            axis_fragmentations=None,
            replica_id=(*tensor.replica_id[:2], 0),  # of data-parallel ranks only this one has it
            allow_shape_mismatch=tensor.allow_shape_mismatch,
        )
        begin = end
