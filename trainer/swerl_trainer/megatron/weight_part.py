"""What one rank sends of the weights in an update, and writes of them to a folder.

Guarantees: the parts of all ranks together are the whole model, each tensor once. A pipeline stage's first rank sends
what the stage's ranks share, an expert-parallel rank of the stage its own experts; no tensor leaves its stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.conversion import ParameterMapping, dtype_of, from_megatron, hf_shapes
from swerl_trainer.megatron.lora import Adapters
from swerl_trainer.megatron.model import gather_shards, owned, parameter, tensors_of
from swerl_trainer.weight_bucket import WeightBucket
from torch import Tensor, nn

from megatron.core import parallel_state


def shared_names(architecture: Architecture) -> list[str]:
    """Weights of this rank's pipeline stage that are no expert's."""
    return [name for entry in owned(architecture) if entry.expert_rank is None for name in entry.hf]


def expert_names(architecture: Architecture) -> list[str]:
    """Weights of the experts that this rank sends: of its own, unless another rank that holds them does."""
    if parallel_state.get_expert_data_parallel_rank():
        return []
    return [name for entry in owned(architecture) if entry.expert_rank is not None for name in entry.hf]


def own_names(architecture: Architecture) -> list[str]:
    """Weights that this rank sends, in the order of the model."""
    sent = {*(shared_names(architecture) if leads() else []), *expert_names(architecture)}
    return [name for entry in owned(architecture) for name in entry.hf if name in sent]


def helped_names(architecture: Architecture) -> list[str]:
    """Weights that this rank gathers with those that share its stage, whichever of them sends them."""
    return shared_names(architecture) if in_first_replica() else []


def leads() -> bool:
    """Whether this rank sends what its stage's ranks share."""
    return in_first_replica() and replica()[0] == dist.get_rank()


def in_first_replica() -> bool:
    """Whether this rank belongs to those of its stage that gather what the stage shares."""
    return int(parallel_state.get_data_parallel_rank(with_context_parallel=True)) == 0


def replica() -> list[int]:
    """The ranks that divide this rank's tensors, itself included."""
    return [int(rank) for rank in dist.get_process_group_ranks(parallel_state.get_tensor_model_parallel_group())]


@torch.no_grad()
def part_weights(
    model: nn.ModuleList, architecture: Architecture, names: Sequence[str], adapters: Adapters | None
) -> Iterator[tuple[str, Tensor]]:
    """The whole tensors `names` of this rank's stage, with `adapters` merged. Unless all are experts', a collective of
    the tensor-parallel ranks."""
    parameters, wanted = tensors_of(model), set(names)
    for entry in owned(architecture):
        if not wanted & set(entry.hf):
            continue
        for name, whole in _whole(parameters, entry, architecture):
            factors = adapters.factors_of(name) if adapters else []
            if adapters and factors:
                a, b = (next(_whole(parameters, factor, architecture))[1] for factor in factors)
                whole = adapters.merged(whole, a, b)
            if name in wanted:
                yield name, whole


def divided(
    names: Sequence[str], model: nn.ModuleList, architecture: Architecture, max_bytes: int
) -> list[WeightBucket]:
    """Buckets of the weights `names`, in order, of at most `max_bytes` unless one tensor alone is larger."""
    weights, all_shapes = next(iter(model.parameters())).dtype, hf_shapes(architecture)
    buckets: list[list[tuple[str, str, tuple[int, ...], int]]] = []
    total = 0
    for name in names:
        dtype, shape = dtype_of(name, weights), all_shapes[name]
        size = dtype.itemsize * math.prod(shape)
        if not buckets or total + size > max_bytes:
            buckets.append([])
            total = 0
        buckets[-1].append((name, str(dtype).removeprefix("torch."), shape, size))
        total += size
    return [
        WeightBucket(names=names, dtypes=dtypes, shapes=shapes, bytes=sum(sizes))
        for names, dtypes, shapes, sizes in (zip(*bucket, strict=True) for bucket in buckets)
    ]


def _whole(
    parameters: dict[str, Tensor], entry: ParameterMapping, architecture: Architecture
) -> Iterator[tuple[str, Tensor]]:
    if entry.expert_rank is not None:
        return from_megatron(entry, [parameter(parameters, entry).detach()], architecture)
    return gather_shards(parameters, entry, architecture)
