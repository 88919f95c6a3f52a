"""Adapters for Megatron-core 0.19 on torch without CUDA; never imported where there is CUDA.

`megatron_on_cpu()` redirects Megatron's CUDA calls to the CPU; nothing here changes a number that training computes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from megatron.core.optimizer.cpu_offloading import HybridDeviceOptimizer
from megatron.core.tensor_parallel import random as megatron_random

# Switches that TransformerConfig needs here: fused kernels and batched P2P synchronisation exist for CUDA only.
CONFIG: dict[str, Any] = {
    "use_cpu_initialization": True,
    "masked_softmax_fusion": False,
    "bias_activation_fusion": False,
    "bias_dropout_fusion": False,
    "apply_rope_fusion": False,
    "gradient_accumulation_fusion": False,
    "persist_layer_norm": False,
    "cross_entropy_loss_fusion": False,
    "batch_p2p_sync": False,
}


class _CpuStream:
    """The one stream there is on a CPU: work is finished when the call returns, so every wait is a no-op."""

    _only: _CpuStream | None = None

    def __new__(cls, *_: Any, **__: Any) -> _CpuStream:
        cls._only = cls._only or super().__new__(cls)  # callers compare streams
        return cls._only

    def wait_event(self, event: object) -> None: ...

    def wait_stream(self, stream: object) -> None: ...

    def synchronize(self) -> None: ...

    def record_event(self, event: object = None) -> object:
        return event or _CpuEvent()

    def query(self) -> bool:
        return True


class _CpuEvent:
    """Always reached."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, stream: object = None) -> None: ...

    def wait(self, stream: object = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


_CUDA_FUNCTIONS: dict[str, Any] = {
    "current_device": lambda: "cpu",
    "current_stream": lambda device=None: _CpuStream(),
    "stream": lambda stream: contextlib.nullcontext(stream),
    "Stream": _CpuStream,
    "Event": _CpuEvent,
    "synchronize": lambda *_, **__: None,
    "set_device": lambda *_, **__: None,
}


class _CudaMeansCpu(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Redirects what patching by name cannot reach: `device="cuda"` literals, `.cuda()`, pinning, and `.type()` strings
    that Megatron's optimizers compare with `torch.cuda.FloatTensor`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs:
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs = {**kwargs, "device": "cpu"}
            if kwargs.get("pin_memory"):
                kwargs = {**kwargs, "pin_memory": False}
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.", 1)
        return func(*args, **kwargs)


_TENSOR: Any = torch.Tensor  # whose stubs know no getters


class _OnDevice(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Within it `parameters` say that they are on a CUDA device, and copies of them that they are not."""

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._parameters = {id(parameter) for parameter in parameters}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _TENSOR.is_cuda.__get__:
            return id(args[0]) in self._parameters
        return func(*args, **(kwargs or {}))


_parameter_groups: Any = HybridDeviceOptimizer._get_sub_optimizer_param_groups


def _groups_of_device_and_host(optimizer: Any, fraction: float) -> Any:
    """The parameters that the hybrid optimizer keeps on the host: it takes only such that are on a CUDA device."""
    with _OnDevice(parameter for group in optimizer.param_groups for parameter in group["params"]):
        return _parameter_groups(optimizer, fraction)


_all_to_all: Any = dist.all_to_all_single


def _all_to_all_of_lists(output: torch.Tensor, input: torch.Tensor, *positional: Any, **named: Any) -> Any:
    """`all_to_all_single`, whose sizes Megatron leaves in tensors where they are on the CPU already."""
    lists = {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in named.items()}
    return _all_to_all(output, input, *positional, **lists)


@contextlib.contextmanager
def megatron_on_cpu() -> Iterator[None]:
    """Context in which Megatron's CUDA calls on this thread use the CPU; outside it torch is unchanged."""
    original = {name: getattr(torch.cuda, name) for name in _CUDA_FUNCTIONS}
    get, put = megatron_random._get_cuda_rng_state, megatron_random._set_cuda_rng_state
    for name, replacement in _CUDA_FUNCTIONS.items():
        setattr(torch.cuda, name, replacement)
    # Recomputation saves the CPU generator in addition to the CUDA one; the CPU one is all there is.
    megatron_random._get_cuda_rng_state = lambda *_, **__: torch.empty(0, dtype=torch.uint8)
    megatron_random._set_cuda_rng_state = lambda *_, **__: None
    dist.all_to_all_single = _all_to_all_of_lists
    HybridDeviceOptimizer._get_sub_optimizer_param_groups = _groups_of_device_and_host
    try:
        with _CudaMeansCpu():
            yield
    finally:
        HybridDeviceOptimizer._get_sub_optimizer_param_groups = _parameter_groups
        dist.all_to_all_single = _all_to_all
        for name, function in original.items():
            setattr(torch.cuda, name, function)
        megatron_random._get_cuda_rng_state, megatron_random._set_cuda_rng_state = get, put
