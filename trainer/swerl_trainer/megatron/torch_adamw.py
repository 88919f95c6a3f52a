"""Support for saving and loading torch's AdamW in Megatron's distributed optimizer. Megatron uses it where neither
Transformer Engine nor Apex is installed, and for state on the host. Nothing here changes a number that training
computes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from megatron.core.optimizer.cpu_offloading import HybridDeviceOptimizer
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer


def prepare_distributed_optimizer(optimizer: Any) -> None:
    """Give torch's AdamW the state it only makes at its first step; DistributedOptimizer asserts it when it saves or
    loads before that. Call before `optimizer.sharded_state_dict(..., is_loading=True)`.

    On the host each parameter has an AdamW of its own, for which Megatron would take a step with random gradients.
    """
    for wrapped in getattr(optimizer, "chained_optimizers", [optimizer]):
        inner = wrapped.optimizer
        if isinstance(inner, HybridDeviceOptimizer):
            for each in inner.sub_optimizers:
                _make_state(each)
            inner._sync_sub_optimizers_state_to_hdo()
        elif isinstance(inner, torch.optim.AdamW):
            _make_state(inner)


def _make_state(adamw: Any) -> None:
    for group in adamw.param_groups:
        for parameter in group["params"]:
            if not adamw.state[parameter]:
                adamw.state[parameter] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }


@contextlib.contextmanager
def prepare_optimizer_load() -> Iterator[None]:
    """Within it DistributedOptimizer loads torch's AdamW: its loader hands over no `step`, and would leave one `step`
    tensor shared by all parameters, which then counts once per parameter."""
    original = DistributedOptimizer._set_main_param_and_optimizer_states

    def set_states(self: Any, model_param: Any, tensors: dict[str, Any]) -> Any:
        group, order = self.model_param_group_index_map[model_param]
        state = self.optimizer.state[self.optimizer.param_groups[group]["params"][order]]
        if "step" in state and "step" not in tensors:
            state["step"] = state["step"].clone()
            tensors = {**tensors, "step": state["step"]}
        return original(self, model_param, tensors)

    DistributedOptimizer._set_main_param_and_optimizer_states = set_states
    try:
        yield
    finally:
        DistributedOptimizer._set_main_param_and_optimizer_states = original
