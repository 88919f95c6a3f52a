"""Weights between Hugging Face names and Megatron's fused, sharded parameters.

Guarantees: every tensor is copied, permuted or split, never computed with, so a round trip is exact bit for bit under
every tensor- and pipeline-parallel layout; a missing, surplus or misshapen tensor is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from swerl_trainer.megatron.architecture import Architecture, Experts, Family
from swerl_trainer.megatron.errors import ConversionError
from torch import Tensor

EMBEDDING = "model.embed_tokens.weight"
OUTPUT = "lm_head.weight"
ROUTER_BIAS = "e_score_correction_bias"  # float32 in every folder, and never trained


@dataclass(frozen=True)
class ParameterMapping:
    """One Megatron parameter and the Hugging Face tensors it holds."""

    # Its name on the stage that owns it, after the number of its chunk of layers: of the local spec, of the
    # Transformer Engine spec.
    megatron: tuple[str, ...]
    hf: tuple[str, ...]
    stage: int
    fusion: Literal["none", "qkv", "gate_up"] = "none"
    split: int | None = None  # dimension that tensor parallelism divides
    expert_rank: int | None = None  # expert-parallel rank that owns it; None: it is not an expert's


def parameter_mappings(
    architecture: Architecture, stages: int, expert_ranks: int = 1, chunks: int = 1
) -> list[ParameterMapping]:
    """Every parameter in the order of the Hugging Face model, with `chunks` of layers on each stage; identical on all
    ranks."""
    mappings = [ParameterMapping(("0.embedding.word_embeddings.weight",), (EMBEDDING,), 0, split=0)]
    for layer in range(architecture.layers):
        place = (layer, *layer_place(layer, architecture.layers, stages, chunks))
        mappings += _attention(architecture.family, *place)
        experts = architecture.experts if architecture.has_experts(layer) else None
        mappings += _mlp(*place) if experts is None else _experts(experts, expert_ranks, *place)
    last, end = f"{chunks - 1}.", stages - 1
    mappings.append(ParameterMapping((f"{last}decoder.final_layernorm.weight",), ("model.norm.weight",), end))
    if not architecture.tied:
        mappings.append(ParameterMapping((f"{last}output_layer.weight",), (OUTPUT,), end, split=0))
    return mappings


def layer_place(layer: int, layers: int, stages: int, chunks: int) -> tuple[str, int]:
    """The name in Megatron of a layer among `layers`, and its stage: chunks of layers go to the stages in turn."""
    position, local = divmod(layer, layers // (stages * chunks))
    chunk, stage = divmod(position, stages)
    return f"{chunk}.decoder.layers.{local}.", stage


def _attention(family: Family, layer: int, m: str, stage: int) -> list[ParameterMapping]:
    h = f"model.layers.{layer}."
    qkv = f"{m}self_attention.linear_qkv."

    def plain(megatron: str, hf: str, split: int | None = None, fused: str | None = None) -> ParameterMapping:
        return ParameterMapping((m + megatron, *([fused] if fused else [])), (h + hf,), stage, split=split)

    def projections(what: str) -> tuple[str, ...]:
        return tuple(f"{h}self_attn.{name}_proj.{what}" for name in "qkv")

    bias = [ParameterMapping((f"{qkv}bias",), projections("bias"), stage, "qkv", 0)]
    norms = [plain(f"self_attention.{name}_layernorm.weight", f"self_attn.{name}_norm.weight") for name in "qk"]
    return [
        plain("input_layernorm.weight", "input_layernorm.weight", fused=f"{qkv}layer_norm_weight"),
        ParameterMapping((f"{qkv}weight",), projections("weight"), stage, "qkv", 0),
        *(bias if family.qkv_bias else []),
        *(norms if family.qk_norm else []),
        plain("self_attention.linear_proj.weight", "self_attn.o_proj.weight", split=1),
        plain(
            "pre_mlp_layernorm.weight", "post_attention_layernorm.weight", fused=f"{m}mlp.linear_fc1.layer_norm_weight"
        ),
    ]


def _mlp(layer: int, place: str, stage: int, below: str = "") -> list[ParameterMapping]:
    m, h = f"{place}mlp.{below}", f"model.layers.{layer}.mlp.{below}"
    gate_up = (f"{h}gate_proj.weight", f"{h}up_proj.weight")
    return [
        ParameterMapping((f"{m}linear_fc1.weight",), gate_up, stage, "gate_up", 0),
        ParameterMapping((f"{m}linear_fc2.weight",), (f"{h}down_proj.weight",), stage, split=1),
    ]


def _experts(experts: Experts, ranks: int, layer: int, place: str, stage: int) -> list[ParameterMapping]:
    """The router, each expert whole on the expert-parallel rank that owns it, then the shared expert."""
    m, h = f"{place}mlp.", f"model.layers.{layer}.mlp."
    mappings = [ParameterMapping((f"{m}router.weight",), (f"{h}gate.weight",), stage)]
    if experts.router == "sigmoid":
        mappings.append(ParameterMapping((f"{m}router.expert_bias",), (f"{h}gate.{ROUTER_BIAS}",), stage))
    for expert in range(experts.count):
        expert_rank, number = divmod(expert, experts.count // ranks)
        prefix = f"{h}experts.{expert}."
        fc1, fc2 = (
            (f"{m}experts.local_experts.{number}.linear_fc{part}.weight", f"{m}experts.linear_fc{part}.weight{number}")
            for part in (1, 2)
        )
        gate_up = (f"{prefix}gate_proj.weight", f"{prefix}up_proj.weight")
        mappings.append(ParameterMapping(fc1, gate_up, stage, "gate_up", expert_rank=expert_rank))
        mappings.append(ParameterMapping(fc2, (f"{prefix}down_proj.weight",), stage, expert_rank=expert_rank))
    return mappings + (_mlp(layer, place, stage, "shared_experts.") if experts.shared else [])


def hf_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Shape of every Hugging Face tensor, in the order of `parameter_mappings`."""
    names = [name for entry in parameter_mappings(architecture, 1) for name in entry.hf]
    return {name: _shape(name, architecture) for name in names}


def _shape(name: str, a: Architecture) -> tuple[int, ...]:
    query, group, width = a.heads * a.head_size, a.groups * a.head_size, a.intermediate
    experts = a.experts.count if a.experts else 0
    if a.experts and ".mlp.experts." in name:
        width = a.experts.intermediate
    elif a.experts and ".shared_experts." in name:
        width = a.experts.shared
    endings: dict[str, tuple[int, ...]] = {
        "q_proj.weight": (query, a.hidden),
        "k_proj.weight": (group, a.hidden),
        "v_proj.weight": (group, a.hidden),
        "o_proj.weight": (a.hidden, query),
        "q_proj.bias": (query,),
        "k_proj.bias": (group,),
        "v_proj.bias": (group,),
        "q_norm.weight": (a.head_size,),
        "k_norm.weight": (a.head_size,),
        "gate_proj.weight": (width, a.hidden),
        "up_proj.weight": (width, a.hidden),
        "down_proj.weight": (a.hidden, width),
        "mlp.gate.weight": (experts, a.hidden),
        ROUTER_BIAS: (experts,),
        "embed_tokens.weight": (a.vocabulary, a.hidden),
        "lm_head.weight": (a.vocabulary, a.hidden),
    }
    return next((shape for ending, shape in endings.items() if name.endswith(ending)), (a.hidden,))


def dtype_of(name: str, weights: torch.dtype) -> torch.dtype:
    """Number format of the Hugging Face tensor `name` of a model whose weights have the format `weights`."""
    return torch.float32 if name.endswith(ROUTER_BIAS) else weights


def check_tensors(present: Mapping[str, tuple[int, ...]], architecture: Architecture, where: str) -> None:
    """Raises ConversionError unless `present` (name -> shape) is the architecture's; a tied output copy and layers for
    multi-token prediction are allowed."""
    expected = hf_shapes(architecture)
    allowed = {OUTPUT} if architecture.tied else set()
    if missing := sorted(expected.keys() - present.keys()):
        raise ConversionError(f"{where}: {len(missing)} tensors are missing, first {missing[0]}")
    extra = tuple(f"model.layers.{architecture.layers + number}." for number in range(architecture.extra_layers))
    if surplus := sorted(n for n in present.keys() - expected.keys() - allowed if not n.startswith(extra or ("-",))):
        raise ConversionError(f"{where}: {len(surplus)} unknown tensors, first {surplus[0]}")
    for name, shape in expected.items():
        if tuple(present[name]) != shape:
            raise ConversionError(f"{where}: {name} has shape {tuple(present[name])}, the configuration says {shape}")


def to_megatron(entry: ParameterMapping, chunks: Sequence[Tensor], architecture: Architecture, size: int) -> Tensor:
    """A rank's shard of a parameter among `size`, from its chunks of the Hugging Face tensors along `entry.split`."""
    if entry.fusion == "qkv":
        return _interleave(chunks, architecture.groups // size)
    if entry.hf[0] in (EMBEDDING, OUTPUT):
        missing = architecture.rows(size) // size - len(chunks[0])
        return F.pad(chunks[0], (0, 0, 0, missing))
    return torch.cat(list(chunks)) if entry.fusion == "gate_up" else chunks[0]


def from_megatron(
    entry: ParameterMapping, shards: Sequence[Tensor], architecture: Architecture
) -> Iterator[tuple[str, Tensor]]:
    """Whole Hugging Face tensors of a parameter, from the shards of all tensor-parallel ranks in order."""
    if entry.fusion == "gate_up":
        parts = zip(*(shard.chunk(2) for shard in shards), strict=True)
        yield from zip(entry.hf, (torch.cat(part) for part in parts), strict=True)
        return
    whole = shards[0] if entry.split is None or len(shards) == 1 else torch.cat(list(shards), dim=entry.split)
    if entry.fusion == "qkv":
        yield from zip(entry.hf, _separate(whole, architecture), strict=True)
    else:
        yield entry.hf[0], whole[: architecture.vocabulary] if entry.hf[0] in (EMBEDDING, OUTPUT) else whole


def _interleave(tensors: Sequence[Tensor], groups: int) -> Tensor:
    """Query, key and value to Megatron's order: per key/value group its query heads, then key, then value."""
    rest = tensors[0].shape[1:]  # empty for a bias
    return torch.cat([t.reshape(groups, -1, *rest) for t in tensors], dim=1).reshape(-1, *rest)


def fuse_outputs(outputs: Sequence[Tensor], architecture: Architecture) -> Tensor:
    """Outputs of query, key and value, or of gate and up, in the order of Megatron's fused layer; [..., features]."""
    if len(outputs) == 2:
        return torch.cat(list(outputs), dim=-1)
    lead, groups = outputs[0].shape[:-1], outputs[1].shape[-1] // architecture.head_size
    return torch.cat([part.reshape(*lead, groups, -1) for part in outputs], dim=-1).flatten(-2)


def _separate(fused: Tensor, a: Architecture) -> tuple[Tensor, ...]:
    per_group = a.heads // a.groups * a.head_size
    rest = fused.shape[1:]
    grouped = fused.view(a.groups, per_group + 2 * a.head_size, *rest)
    return tuple(t.reshape(-1, *rest) for t in grouped.tensor_split((per_group, per_group + a.head_size), dim=1))
