"""A sample of the weights as an engine holds them: fused, divided and summed as SGLang does.

Guarantees: pure but for the sums; a tensor whose form in the engine is not known is left out.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.conversion import EMBEDDING, OUTPUT, hf_shapes
from torch import Tensor

VOCABULARY_MULTIPLE = 64  # to which SGLang pads embeddings with zeros
_FUSED = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
}
_BY_COLUMNS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")  # ends of names; ranks divide the last dimension
_WHOLE = ("norm.weight", "mlp.gate.weight")  # ends of names; every rank holds all of it


def sample_names(architecture: Architecture, version: int) -> list[str]:
    """Hugging Face names of the tensors that are compared after the update to `version`: each layer in its turn, then
    what lies outside the layers. Experts are left out."""
    number = version % (architecture.layers + 1)
    layer = f"model.layers.{number}."
    inside = number < architecture.layers
    return [
        name
        for name in hf_shapes(architecture)
        if (name.startswith(layer) if inside else not name.startswith("model.layers.")) and ".experts." not in name
    ]


def others(architecture: Architecture, names: list[str]) -> tuple[str, ...]:
    """Parts of the names of all other parameters of an engine."""
    layers = [f"model.layers.{number}." for number in range(architecture.layers)]
    chosen = next((layer for layer in layers if names[0].startswith(layer)), None)
    if chosen is None:
        return ("model.layers.",)
    outside = ("embed_tokens.", "lm_head.", "model.norm.", ".experts.")
    return (*(layer for layer in layers if layer != chosen), *outside)


def engine_sums(tensors: Mapping[str, Tensor], architecture: Architecture, ranks: int) -> tuple[dict[str, str], ...]:
    """The sum of each parameter on each of an engine's `ranks` tensor-parallel ranks, from whole tensors."""
    return tuple(
        {name: weight_sum(value) for name, value in _parameters(tensors, architecture, rank, ranks)}
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


def _rows(name: str, tensor: Tensor, architecture: Architecture, rank: int, ranks: int) -> Tensor:
    """A rank's rows; key/value heads that are fewer than the ranks are held by several of them."""
    heads = architecture.groups if ".k_proj." in name or ".v_proj." in name else ranks
    shares = min(ranks, heads)
    return tensor.tensor_split(shares)[rank * shares // ranks]
