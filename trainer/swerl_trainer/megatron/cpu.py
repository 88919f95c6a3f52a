"""Everything that lets Megatron-core 0.19 train where torch has no CUDA; never imported where it has.

`megatron_on_cpu()` answers Megatron's CUDA questions for the CPU, `PackedAttention` replaces Transformer Engine's
attention through Megatron's own spec hook, `prepare_distributed_optimizer` and `prepare_optimizer_load` make torch's
AdamW loadable by Megatron's distributed optimizer. Nothing here changes a number that training computes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from megatron.core.tensor_parallel import random as megatron_random
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig

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
    """Answers what no name can be patched for: `device="cuda"` literals, `.cuda()`, pinning, and `.type()` strings
    that Megatron's optimizers compare with `torch.cuda.FloatTensor`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs:
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs = {**kwargs, "device": "cpu"}
            if kwargs.get("pin_memory"):
                kwargs = {**kwargs, "pin_memory": False}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.", 1)
        return func(*args, **kwargs)


@contextlib.contextmanager
def megatron_on_cpu() -> Iterator[None]:
    """Within it Megatron's CUDA calls land on the CPU, on this thread; outside, torch is as it was."""
    original = {name: getattr(torch.cuda, name) for name in _CUDA_FUNCTIONS}
    get, put = megatron_random._get_cuda_rng_state, megatron_random._set_cuda_rng_state
    for name, replacement in _CUDA_FUNCTIONS.items():
        setattr(torch.cuda, name, replacement)
    # Recomputation saves the CPU generator beside the CUDA one; the CPU one is all there is.
    megatron_random._get_cuda_rng_state = lambda *_, **__: torch.empty(0, dtype=torch.uint8)
    megatron_random._set_cuda_rng_state = lambda *_, **__: None
    try:
        with _CudaMeansCpu():
            yield
    finally:
        for name, function in original.items():
            setattr(torch.cuda, name, function)
        megatron_random._get_cuda_rng_state, megatron_random._set_cuda_rng_state = get, put


def layer_spec() -> Any:
    """Megatron's local layer spec of Qwen3 with attention that understands packed sequences."""
    spec = get_gpt_layer_local_spec(qk_layernorm=True, normalization="RMSNorm")
    spec.submodules.self_attention.submodules.core_attention = PackedAttention
    return spec


class PackedAttention(MegatronModule):  # type: ignore[misc]
    """Causal attention over packed (thd) sequences with torch's SDPA; with context parallelism every rank gathers the
    keys and values of the whole sequence (chunks r and 2n-1-r of 2n lie on rank r, Megatron's balanced order)."""

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        cp_comm_type: str | None = None,
        pg_collection: Any = None,
        **_: Any,
    ) -> None:
        super().__init__(config=config)
        self.scale = softmax_scale if softmax_scale is not None else 1.0 / math.sqrt(config.kv_channels)
        self.context_group = parallel_state.get_context_parallel_group()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> Tensor:
        """`query` [t, heads, d], `key` and `value` [t, groups, d] of this rank's tokens; returns [t, heads * d]."""
        if packed_seq_params is None:
            raise ValueError("PackedAttention needs packed sequences (qkv_format thd)")
        ranks = self.context_group.size()
        ends = (packed_seq_params.cu_seqlens_q[1:-1] // ranks).tolist()
        parts = zip(query.tensor_split(ends), key.tensor_split(ends), value.tensor_split(ends), strict=True)
        outputs = [self._attend(q, k, v) if ranks == 1 else self._attend_context_parallel(q, k, v) for q, k, v in parts]
        return torch.cat(outputs).reshape(query.shape[0], -1)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, scale=self.scale, enable_gqa=k.shape[1] != q.shape[1]
        )
        return out[0].transpose(0, 1)

    def _attend_context_parallel(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ranks, rank, half = self.context_group.size(), self.context_group.rank(), q.shape[0] // 2
        chunks = [chunk for r in range(ranks) for chunk in (r, 2 * ranks - 1 - r)]
        position = torch.cat([torch.arange(half) + chunk * half for chunk in chunks])  # of every gathered key
        k, v = (gather_from_sequence_parallel_region(x.contiguous(), group=self.context_group) for x in (k, v))
        mine = position[rank * q.shape[0] : (rank + 1) * q.shape[0]]
        return self._attend(q, k, v, mask=mine[:, None] >= position[None])


def prepare_distributed_optimizer(optimizer: Any) -> None:
    """Give torch's AdamW the state it only makes at its first step; DistributedOptimizer asserts it when it saves or
    loads before that. Call before `optimizer.sharded_state_dict(..., is_loading=True)`."""
    for wrapped in getattr(optimizer, "chained_optimizers", [optimizer]):
        inner = wrapped.optimizer
        for group in inner.param_groups:
            for parameter in group["params"]:
                if not inner.state[parameter]:
                    inner.state[parameter] = {
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
