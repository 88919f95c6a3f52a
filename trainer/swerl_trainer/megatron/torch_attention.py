"""Decoder layers with torch's own kernels, where Transformer Engine is not installed: every CPU, and a GPU without it.

Guarantees: `PackedAttention` takes the place of Transformer Engine's attention through Megatron's own spec hook and
computes the same function of packed sequences, under context parallelism too.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig


def block_spec(config: TransformerConfig, chunk: int) -> Any:
    """Megatron's local spec of the layers of this pipeline stage's `chunk`, with attention that understands packed
    sequences."""
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="RMSNorm", vp_stage=chunk)
    for layer in spec.layer_specs:
        parts, attention = layer.submodules, layer.submodules.self_attention.submodules
        attention.core_attention = PackedAttention
        parts.input_layernorm = parts.pre_mlp_layernorm = RMSNorm
        if config.qk_layernorm:
            attention.q_layernorm = attention.k_layernorm = RMSNorm
    spec.layer_norm = RMSNorm
    return spec


class RMSNorm(nn.RMSNorm):
    """torch's norm; under sequence parallelism Megatron sums its gradient over the ranks, which have tokens each."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps)
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]


class PackedAttention(MegatronModule):  # type: ignore[misc]
    """Causal attention over packed (thd) sequences with torch's SDPA.

    With context parallelism every rank gathers the keys and values of the whole sequence. Chunks r and 2n-1-r of 2n are
    on rank r (Megatron's balanced order).
    """

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
        position = torch.cat(
            [torch.arange(half, device=q.device) + chunk * half for chunk in chunks]
        )  # of gathered keys
        k, v = (gather_from_sequence_parallel_region(x.contiguous(), group=self.context_group) for x in (k, v))
        query_position = position[rank * q.shape[0] : (rank + 1) * q.shape[0]]
        return self._attend(q, k, v, mask=query_position[:, None] >= position[None])
