"""The sizes of a model, from its config.json, and how many parameters each part has.

Guarantees: counts equal those of the model's tensors; a configuration without the fields needed is a ShapeError that
names the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GATED_MATRICES = 3  # gate, up and down projection of an MLP
FAMILIES = ("qwen2", "qwen3", "qwen3_moe", "llama", "glm4_moe")  # values of model_type whose tensors are counted


class ShapeError(ValueError):
    """A configuration does not describe a decoder that can be planned."""


@dataclass(frozen=True)
class ExpertShape:
    """The mixture of experts of a layer."""

    count: int
    per_token: int
    intermediate: int  # of one expert
    shared: int = 0  # intermediate size of the shared experts together
    dense_layers: int = 0  # first layers, which have one dense MLP instead
    bias: bool = False  # one correction per expert in the router


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder with gated MLPs, RMS norms and rotary embedding."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    context: int  # positions, rotary scaling included
    tied: bool  # the output layer is the embedding
    qkv_bias: bool = False
    qk_norm: bool = False
    experts: ExpertShape | None = None

    @property
    def embedding(self) -> int:
        """Parameters of the embedding; an untied output layer has as many."""
        return self.vocabulary * self.hidden

    @property
    def attention(self) -> int:
        """Parameters of one layer's attention that tensor parallelism divides."""
        projected = (self.heads + 2 * self.kv_heads) * self.head_size
        bias = projected if self.qkv_bias else 0
        return self.hidden * (projected + self.heads * self.head_size) + bias

    @property
    def norms(self) -> int:
        """Parameters of one layer's norms, which every tensor-parallel rank has."""
        return 2 * self.hidden + (2 * self.head_size if self.qk_norm else 0)

    @property
    def expert(self) -> int:
        """Parameters of one expert; 0 in a dense model."""
        return GATED_MATRICES * self.hidden * self.experts.intermediate if self.experts else 0

    def router(self, layer: int) -> int:
        """Parameters of the router of `layer`; 0 where its MLP is dense."""
        experts = self.experts
        if experts is None or layer < experts.dense_layers:
            return 0
        return experts.count * (self.hidden + (1 if experts.bias else 0))

    def mlp(self, layer: int) -> int:
        """Parameters of `layer` that tensor parallelism divides, beside the attention: its dense or shared MLP."""
        experts = self.experts
        size = self.intermediate if experts is None or layer < experts.dense_layers else experts.shared
        return GATED_MATRICES * self.hidden * size

    def routed(self, layer: int) -> int:
        """Parameters of the routed experts of `layer`."""
        experts = self.experts
        return experts.count * self.expert if experts and layer >= experts.dense_layers else 0

    @property
    def parameters(self) -> int:
        """All parameters."""
        layers = range(self.layers)
        each = self.layers * (self.attention + self.norms)
        mlps = sum(self.mlp(layer) + self.router(layer) + self.routed(layer) for layer in layers)
        return self.embedding * (1 if self.tied else 2) + each + mlps + self.hidden

    @property
    def active(self) -> int:
        """Parameters that one token uses, without the embedding."""
        unused = 0
        if self.experts:
            idle = self.experts.count - self.experts.per_token
            unused = (self.layers - self.experts.dense_layers) * idle * self.expert
        return self.parameters - unused - (0 if self.tied else self.embedding)

    @property
    def attention_cost(self) -> float:
        """Arithmetic of one pair of tokens that attention compares, relative to that of one token in the matrices."""
        return 2 * self.layers * self.heads * self.head_size / self.active

    def forward_flops(self, lengths: Iterable[int]) -> float:
        """Floating-point operations of a forward pass over causal sequences of `lengths` tokens."""
        return 2 * self.active * sum(length * (1 + self.attention_cost * length / 2) for length in lengths)


def read_shape(path: Path) -> ModelShape:
    """Shape in `path`, a config.json or the folder of one. Raises ShapeError."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ShapeError(f"cannot read the model configuration {file}: {error}") from error
    try:
        return shape_of(config)
    except ShapeError as error:
        raise ShapeError(f"{file}: {error}") from error


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """Shape that the fields of a config.json describe. Raises ShapeError."""
    try:
        family, heads = str(config["model_type"]), int(config["num_attention_heads"])
        if family not in FAMILIES:
            raise ShapeError(f"model_type {family!r} cannot be planned; known are {', '.join(FAMILIES)}")
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_size=int(config.get("head_dim") or int(config["hidden_size"]) // heads),
            intermediate=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            context=_context(config),
            tied=bool(config.get("tie_word_embeddings", False)),
            qkv_bias=bool(config.get("attention_bias", family == "qwen2")),
            qk_norm=bool(config.get("use_qk_norm", family.startswith("qwen3"))),
            experts=_experts(config),
        )
    except ShapeError:
        raise
    except KeyError as error:
        raise ShapeError(f"the configuration has no {error.args[0]!r}") from error
    except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise ShapeError(f"the configuration cannot be read: {error}") from error


def _context(config: Mapping[str, Any]) -> int:
    """Positions that engines accept: scaled ones count only where the scaling does not name the original number."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    positions = int(config.get("max_position_embeddings", 32_768))
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind in ("default", "llama3") or "original_max_position_embeddings" in scaling:
        return positions
    return int(positions * float(scaling.get("factor", 1.0)))


def _experts(config: Mapping[str, Any]) -> ExpertShape | None:
    count = config.get("num_experts") or config.get("n_routed_experts") or config.get("num_local_experts")
    if not count:
        return None
    intermediate = int(config["moe_intermediate_size"])
    shared = config.get("shared_expert_intermediate_size") or intermediate * int(config.get("n_shared_experts") or 0)
    return ExpertShape(
        count=int(count),
        per_token=int(config["num_experts_per_tok"]),
        intermediate=intermediate,
        shared=int(shared),
        dense_layers=int(config.get("first_k_dense_replace") or 0),
        bias="n_routed_experts" in config,
    )
