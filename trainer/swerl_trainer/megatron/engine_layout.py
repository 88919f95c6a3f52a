"""A sample of the weights as an engine holds them: fused, divided and summed as SGLang does, and each expert by itself.

Guarantees: pure but for the sums; a tensor whose form in the engine is not known is left out.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.conversion import EMBEDDING, OUTPUT, ROUTER_BIAS, hf_shapes
from torch import Tensor

VOCABULARY_MULTIPLE = 64  # to which SGLang pads embeddings with zeros
_FUSED = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.shared_experts.gate_up_proj": ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"),
}
# Ends of names; ranks divide the last dimension.
_BY_COLUMNS = ("self_attn.o_proj.weight", "mlp.down_proj.weight", "mlp.shared_experts.down_proj.weight")
_WHOLE = ("norm.weight", "mlp.gate.weight", ROUTER_BIAS)  # ends of names; every rank holds all of it
_EXPERT = re.compile(r"(.*\.experts\.(\d+)\.)(gate|up|down)_proj\.weight")
_ADAPTED_ROWS = ("self_attn.o_proj", "mlp.down_proj")  # ranks divide the inputs, so the columns of A


def sample_names(architecture: Architecture, version: int) -> list[str]:
    """Hugging Face names of the tensors that are compared after the update to `version`: each layer in its turn, then
    what lies outside the layers."""
    number = version % (architecture.layers + 1)
    layer = f"model.layers.{number}."
    inside = number < architecture.layers
    return [
        name
        for name in hf_shapes(architecture)
        if (name.startswith(layer) if inside else not name.startswith("model.layers."))
    ]


def others(architecture: Architecture, names: list[str]) -> tuple[str, ...]:
    """Parts of the names of all other parameters of an engine, and of parameters that hold several experts."""
    layers = [f"model.layers.{number}." for number in range(architecture.layers)]
    chosen = next((layer for layer in layers if names[0].startswith(layer)), None)
    if chosen is None:
        return ("model.layers.",)
    outside = ("embed_tokens.", "lm_head.", "model.norm.", ".experts.w")
    return (*(layer for layer in layers if layer != chosen), *outside)


def engine_sums(
    tensors: Mapping[str, Tensor], architecture: Architecture, ranks: int, expert_ranks: int = 1
) -> tuple[dict[str, str], ...]:
    """The sum of each parameter on each of an engine's `ranks` tensor-parallel ranks, from whole tensors.

    `expert_ranks`: parts into which the engine divides its experts; the ranks of a part share each of its experts.
    """
    return tuple(
        {
            name: weight_sum(value)
            for name, value in (
                *_parameters(tensors, architecture, rank, ranks),
                *_experts(tensors, architecture, rank, ranks, expert_ranks),
            )
        }
        for rank in range(ranks)
    )


def adapter_names(shapes: Iterable[str], architecture: Architecture, version: int) -> list[str]:
    """Those of the factors named `shapes` that are compared after the update to `version`: each layer in its turn."""
    layer = f"model.layers.{version % architecture.layers}."
    return [name for name in shapes if name.startswith(layer)]


def other_than_adapters(architecture: Architecture, version: int) -> tuple[str, ...]:
    """As `others`, of all parameters but the factors of `adapter_names`."""
    layers = (n for n in range(architecture.layers) if n != version % architecture.layers)
    return (*(f"model.layers.{n}." for n in layers), ".weight", ".bias", ".experts.")


def adapter_sums(factors: Mapping[str, Tensor], architecture: Architecture, ranks: int) -> tuple[dict[str, str], ...]:
    """As `engine_sums`, of whole factors of one layer's adapters."""
    return tuple(
        {name: weight_sum(value) for name, value in _adapters(factors, architecture, rank, ranks)}
        for rank in range(ranks)
    )


def weight_sum(tensor: Tensor) -> str:
    """What SGLang's weight checker answers for a parameter with this content, on the same kind of device."""
    if tensor.is_cuda:
        sglang: Any = importlib.import_module("sglang.srt.managers.mm_utils")
        return f"{sglang.tensor_hash(tensor.contiguous()):016x}"
    content = tensor.detach().contiguous().flatten().view(torch.uint8).numpy()
    return hashlib.sha256(content.data).hexdigest()[:16]


def _parameters(
    tensors: Mapping[str, Tensor], architecture: Architecture, rank: int, ranks: int
) -> Iterator[tuple[str, Tensor]]:
    for fused, parts in _FUSED.items():
        for ending in (".weight", ".bias"):
            names = [name for part in parts for name in tensors if name.endswith(part + ending)]
            if len(names) == len(parts):
                shards = [_rows(name, tensors[name], architecture, rank, ranks) for name in names]
                yield names[0].replace(parts[0], fused), torch.cat(shards)
    for name, tensor in tensors.items():
        if name in (EMBEDDING, OUTPUT):
            missing = -len(tensor) % VOCABULARY_MULTIPLE
            yield name, F.pad(tensor, (0, 0, 0, missing)).tensor_split(ranks)[rank]
        elif name.endswith(_BY_COLUMNS):
            yield name, tensor.tensor_split(ranks, dim=1)[rank]
        elif name.endswith(_WHOLE):
            yield name, tensor


def _experts(
    tensors: Mapping[str, Tensor], architecture: Architecture, rank: int, ranks: int, expert_ranks: int
) -> Iterator[tuple[str, Tensor]]:
    """A rank's part of each of its experts: gate above up, and down."""
    shares = ranks // expert_ranks  # ranks that share an expert; they follow one another
    part, place = divmod(rank, shares)
    count = architecture.experts.count // expert_ranks if architecture.experts else 0
    for name, tensor in tensors.items():
        match = _EXPERT.fullmatch(name)
        if not match or int(match[2]) // count != part:
            continue
        if match[3] == "gate":
            parts = (tensor, tensors[f"{match[1]}up_proj.weight"])
            yield f"{match[1]}w13_weight", torch.cat([each.tensor_split(shares)[place] for each in parts])
        elif match[3] == "down":
            yield f"{match[1]}w2_weight", tensor.tensor_split(shares, dim=1)[place]


def _adapters(
    factors: Mapping[str, Tensor], architecture: Architecture, rank: int, ranks: int
) -> Iterator[tuple[str, Tensor]]:
    """A rank's factors, with zeros for a matrix without adapter that is fused with others."""
    layer = ".".join(next(iter(factors), "").split(".")[:3])
    for fused, parts in _FUSED.items():
        for factor in ("lora_A", "lora_B"):
            names = [f"{layer}.{part}.{factor}.weight" for part in parts]
            if names[0] not in factors:
                continue
            like = next(factors[name] for name in reversed(names) if name in factors)
            whole = [(name, factors.get(name, torch.zeros_like(like))) for name in names]
            held = [t if factor == "lora_A" else _rows(n, t, architecture, rank, ranks) for n, t in whole]
            yield f"{layer}.{fused.rpartition('.')[2]}.{factor}", torch.cat(held)
    for place in _ADAPTED_ROWS:
        module = f"{layer}.{place.rpartition('.')[2]}"
        if (a := factors.get(f"{layer}.{place}.lora_A.weight")) is not None:
            yield f"{module}.lora_A", a.tensor_split(ranks, dim=1)[rank]
            yield f"{module}.lora_B", factors[f"{layer}.{place}.lora_B.weight"]


def _rows(name: str, tensor: Tensor, architecture: Architecture, rank: int, ranks: int) -> Tensor:
    """A rank's rows; key/value heads that are fewer than the ranks are held by several of them."""
    heads = architecture.groups if ".k_proj." in name or ".v_proj." in name else ranks
    shares = min(ranks, heads)
    return tensor.tensor_split(shares)[rank * shares // ranks]
