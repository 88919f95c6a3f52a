"""Weights, optimizer and RNG of all ranks as one sharded checkpoint (Megatron's dist_checkpointing).

Guarantees: `load_state` continues exactly where `begin_save` stopped, under the same or another layout; both are
collectives of all ranks on a folder that all of them reach.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swerl_api import LoraSpec
from swerl_trainer.megatron.background_save import BackgroundSave, PlannedSave
from swerl_trainer.megatron.lora import Adapters
from swerl_trainer.megatron.torch_adamw import prepare_distributed_optimizer, prepare_optimizer_load
from torch import nn

from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.strategies.fully_parallel import FullyParallelSaveStrategyWrapper

_PREFIX = "model."
_STATES = "optimizer"  # key of the optimizer's states
_STEP = "optimizer_step"  # key of the updates that the optimizer has counted, for its bias correction
_LORA = "lora"  # key of a checkpoint's adapters' description
_METADATA = {"distrib_optim_sharding_type": "fully_reshardable"}


def begin_save(
    folder: Path, model: nn.ModuleList, optimizer: Any, updates: int, adapters: Adapters | None
) -> BackgroundSave:
    """Copy the state, and start writing it to `folder`, which is made if it is missing; with `adapters` them alone,
    without the model's weights."""
    folder.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    if not updates:
        _initialise(optimizer)
    # The writer runs in this process; without a queue of its own it would start a server process for one.
    if filesystem_async._results_queue is None:
        filesystem_async._results_queue = queue.Queue()
    group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    common: dict[str, Any] = {"updates": updates, "rng": torch.get_rng_state()}
    if adapters is not None:
        common[_LORA] = adapters.lora.model_dump()
    weights = _sharded_weights(model, adapters)
    states = _optimizer_states(optimizer, weights, loading=False)
    common[_STEP] = max(_steps(states), default=0)
    everything = {**weights, _STATES: _parameter_states(states), **common}
    live = {each.data.untyped_storage().data_ptr() for each in nested_values(everything) if _has_tensor(each)}
    planned = PlannedSave()
    strategy = FullyParallelSaveStrategyWrapper(planned, group)
    dist_checkpointing.save(everything, str(folder), strategy, async_sharded_save=True, async_strategy="mcore")
    return BackgroundSave(folder, planned, live)


def load_state(folder: Path, model: nn.ModuleList, optimizer: Any, adapters: Adapters | None) -> int:
    """Restore from `folder`; returns `updates`."""
    prepare_distributed_optimizer(optimizer)
    weights = _sharded_weights(model, adapters)
    with prepare_optimizer_load():
        states = _optimizer_states(optimizer, weights, loading=True)
        loaded = dist_checkpointing.load({**weights, _STATES: _parameter_states(states)}, str(folder))
        _take(model, adapters, loaded)
        for number, (each, state) in enumerate(zip(_members(optimizer), states, strict=True)):
            for group in state["optimizer"]["param_groups"]:
                group["step"] = loaded[_STEP]
            each.load_state_dict({**state, "param_state": loaded[_STATES][number]})
    torch.set_rng_state(loaded["rng"])
    return int(loaded["updates"])


def restore_weights(folder: Path, model: nn.ModuleList, adapters: Adapters | None) -> None:
    """The weights alone from `folder`, whatever else is there."""
    _take(model, adapters, dist_checkpointing.load(_sharded_weights(model, adapters), str(folder)))


def lora_of(folder: Path) -> LoraSpec | None:
    """The adapters that `folder` has instead of weights, None if it has weights."""
    fields = dist_checkpointing.load_common_state_dict(str(folder)).get(_LORA)
    return None if fields is None else LoraSpec.model_validate(fields)


def _take(model: nn.ModuleList, adapters: Adapters | None, loaded: dict[str, Any]) -> None:
    if adapters is not None:
        return adapters.load(loaded)
    for number, chunk in enumerate(model):
        chunk.load_state_dict({name.removeprefix(_PREFIX): value for name, value in loaded[_chunk(number)].items()})
    return None


def _chunk(number: int) -> str:
    """Key of the weights of one chunk of layers, whose tensors have the same names under every layout."""
    return f"chunk{number}"


def _has_tensor(described: Any) -> bool:
    return torch.is_tensor(getattr(described, "data", None)) and not torch.is_tensor(described)


def _initialise(optimizer: Any) -> None:
    """Give the optimizer the state that it only makes at its first update; a save asserts that it is there."""
    prepare_distributed_optimizer(optimizer)
    for wrapped in _members(optimizer):
        if wrapped.init_state_fn is not None:  # of Transformer Engine's Adam; it skips state that is there
            wrapped.init_state_fn(wrapped.optimizer, wrapped.config)


def _sharded_weights(model: nn.ModuleList, adapters: Adapters | None) -> dict[str, Any]:
    if adapters is not None:
        return dict(adapters.sharded())
    chunks: Iterable[Any] = model
    return {
        _chunk(number): chunk.sharded_state_dict(prefix=_PREFIX, metadata=dict(_METADATA))
        for number, chunk in enumerate(chunks)
    }


def _members(optimizer: Any) -> list[Any]:
    """The optimizers of `optimizer`: with expertParallel above 1 Megatron has one of experts and one of all others."""
    return list(getattr(optimizer, "chained_optimizers", [optimizer]))


def _optimizer_states(optimizer: Any, weights: dict[str, Any], *, loading: bool) -> list[dict[str, Any]]:
    """Each member's state. Its tensors have the names of their weights, so that another layout finds them."""
    return [
        each.sharded_state_dict(weights, is_loading=loading, metadata=dict(_METADATA)) for each in _members(optimizer)
    ]


def _parameter_states(states: list[dict[str, Any]]) -> dict[int, Any]:
    return {number: state["param_state"] for number, state in enumerate(states)}


def _steps(states: list[dict[str, Any]]) -> list[float]:
    """Updates that the members have counted; one without parameters on this rank has counted none."""
    groups = (group for state in states for group in state["optimizer"]["param_groups"])
    return [group["step"] for group in groups if group.get("step") is not None]
