"""Megatron's configuration of a model in the layout of a job."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from swerl_api import TrainerSpec
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.device import Device

from megatron.core.transformer.transformer_config import TransformerConfig

_RECOMPUTE: dict[str, dict[str, object]] = {
    "none": {},
    "selective": {"recompute_granularity": "selective"},
    "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
}


def transformer_config(architecture: Architecture, rank: RankConfig, device: Device) -> TransformerConfig:
    """Megatron's configuration of `architecture` in the layout of `rank.trainer`."""
    dtype = getattr(torch, rank.dtype)
    trainer = rank.trainer
    return TransformerConfig(
        num_layers=architecture.layers,
        hidden_size=architecture.hidden,
        num_attention_heads=architecture.heads,
        num_query_groups=architecture.groups,
        kv_channels=architecture.head_size,
        ffn_hidden_size=architecture.intermediate,
        normalization="RMSNorm",
        layernorm_epsilon=architecture.norm_epsilon,
        qk_layernorm=architecture.family.qk_norm,
        add_qkv_bias=architecture.family.qkv_bias,
        softmax_scale=_softmax_scale(architecture),
        gated_linear_unit=True,
        activation_func=F.silu,
        add_bias_linear=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        attention_softmax_in_fp32=True,
        perform_initialization=False,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        tensor_model_parallel_size=trainer.tensor_parallel,
        pipeline_model_parallel_size=trainer.pipeline_parallel,
        context_parallel_size=trainer.context_parallel,
        variable_seq_lengths=trainer.pipeline_parallel > 1,
        moe_token_dispatcher_type="alltoall",  # dense models too: the only one that changing lengths allow
        **_interleaved(trainer),
        **_expert_config(architecture, trainer),
        **device.config(trainer.tensor_parallel),
        **_RECOMPUTE[trainer.recompute],
    )


def _interleaved(trainer: TrainerSpec) -> dict[str, Any]:
    """Several chunks of layers on each stage. Activations and gradients are then exchanged in separate calls: of two
    stages each is the other's neighbour on both sides, and one batch would mix them up."""
    if trainer.virtual_pipeline == 1:
        return {}
    return {
        "virtual_pipeline_model_parallel_size": trainer.virtual_pipeline,
        "overlap_p2p_comm": True,
        "batch_p2p_comm": False,
    }


def _expert_config(architecture: Architecture, trainer: TrainerSpec) -> dict[str, Any]:
    """Routing as transformers computes it; the softmax of the chosen logits is the normalised softmax of all."""
    experts = architecture.experts
    if experts is None:
        return {}
    return {
        "num_moe_experts": experts.count,
        "moe_ffn_hidden_size": experts.intermediate,
        "moe_layer_freq": [int(architecture.has_experts(layer)) for layer in range(architecture.layers)],
        "moe_shared_expert_intermediate_size": experts.shared or None,
        "moe_router_topk": experts.per_token,
        "moe_router_pre_softmax": not experts.normalised,
        "moe_router_score_function": experts.router,
        "moe_router_enable_expert_bias": experts.router == "sigmoid",
        "moe_router_topk_scaling_factor": experts.scaling if experts.scaling != 1.0 else None,
        "moe_router_load_balancing_type": "none",
        "moe_router_dtype": "fp32",
        "expert_model_parallel_size": trainer.expert_parallel,
        "expert_tensor_parallel_size": 1,
    }


def _softmax_scale(architecture: Architecture) -> float | None:
    """Scale of the attention's logits: the rotary's factor scales queries and keys, all of whose dimensions rotate."""
    if architecture.rotary is None:
        return None
    return float(architecture.rotary.attention_factor**2 / math.sqrt(architecture.head_size))
