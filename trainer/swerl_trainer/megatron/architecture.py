"""The architecture of a model, from its Hugging Face folder.

Guarantees: only architectures whose every tensor is converted exactly are accepted; anything else is a typed error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from swerl_api import TrainerSpec
from swerl_plan.layout import Layout, model_problems
from swerl_trainer.megatron.errors import ConversionError, LayoutError
from swerl_trainer.megatron.rotary import Rotary, rotary


@dataclass(frozen=True)
class Family:
    """What the models of one `model_type` have beyond the common parts."""

    qkv_bias: bool = False
    qk_norm: bool = False  # of each head's query and key
    router: Literal["softmax", "sigmoid"] | None = None  # of a mixture of experts; None: there is none
    optional: tuple[str, ...] = ()  # fields of config.json that decide where other families have one value


FAMILIES = {
    "qwen2": Family(qkv_bias=True),  # Qwen2.5 too
    "qwen3": Family(qk_norm=True),
    "qwen3_moe": Family(qk_norm=True, router="softmax"),
    "llama": Family(),  # Llama 3 to 3.3
    "glm4_moe": Family(router="sigmoid", optional=("attention_bias", "partial_rotary_factor")),  # GLM-4.5 to 4.7
}
PARTIAL_ROTARY = {"glm4_moe": 0.5}  # share of a head that rotates, where config.json does not say it
# Fields of config.json that would change what is computed, and their values that do not.
_UNSUPPORTED = {
    "use_sliding_window": (None, False),
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "hidden_act": (None, "silu"),
    "partial_rotary_factor": (None, 1.0),
    "decoder_sparse_step": (None, 1),
    "mlp_only_layers": (None, []),
    "n_group": (None, 1),
    "topk_group": (None, 1),
}


@dataclass(frozen=True)
class Experts:
    """The mixture of experts of a layer. A sigmoid router has a bias per expert that only decides the choice."""

    count: int
    per_token: int
    intermediate: int
    normalised: bool  # the weights of a token's experts sum to 1, before `scaling`
    router: Literal["softmax", "sigmoid"] = "softmax"
    scaling: float = 1.0
    shared: int = 0  # intermediate size of the MLP that takes every token beside the experts
    dense_layers: int = 0  # first layers, which have a dense MLP instead


@dataclass(frozen=True)
class Architecture:
    """Shape of a decoder with gated SiLU, RMS norms and rotary embedding."""

    family: Family
    layers: int
    hidden: int
    heads: int
    groups: int  # key/value heads
    head_size: int
    intermediate: int
    vocabulary: int
    max_positions: int
    rope_base: float
    rotary: Rotary | None  # None: the plain frequencies of `rope_base`
    norm_epsilon: float
    tied: bool  # output layer shares the embedding
    experts: Experts | None = None  # None: one dense MLP per layer
    rotary_size: int = 0  # first dimensions of a head that rotate; 0: all
    extra_layers: int = 0  # layers in the files behind the last one, for multi-token prediction; they are not used

    def has_experts(self, layer: int) -> bool:
        """Whether layer `layer` has a mixture of experts."""
        return self.experts is not None and layer >= self.experts.dense_layers

    def rows(self, tensor_parallel: int) -> int:
        """Rows of embedding and output layer, padded so that every rank has as many."""
        return -(-self.vocabulary // tensor_parallel) * tensor_parallel

    def check(self, trainer: TrainerSpec) -> None:
        """Raises LayoutError when the layout of `trainer` cannot divide the model evenly."""
        problems = model_problems(
            heads=self.heads,
            kv_heads=self.groups,
            intermediate=self.intermediate,
            layers=self.layers,
            experts=self.experts.count if self.experts else 0,
            shared_expert=self.experts.shared if self.experts else 0,
            layout=Layout.of(trainer),
        )
        for problem in problems:
            raise LayoutError(problem)


def read_architecture(folder: Path) -> Architecture:
    """Architecture in `folder/config.json`. Raises ConversionError when it is missing or not supported."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ConversionError(f"cannot read the model configuration {folder / 'config.json'}: {error}") from error
    family = FAMILIES.get(config.get("model_type", ""))
    if family is None:
        raise ConversionError(f"{folder}: model type {config.get('model_type')!r} is not one of {', '.join(FAMILIES)}")
    for field, harmless in _UNSUPPORTED.items():
        if config.get(field) not in harmless and field not in family.optional:
            raise ConversionError(f"{folder}: {field} {config[field]!r} in config.json is not supported")
    rope = config.get("rope_parameters") or {}
    head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rotary_size = int(head_size * _rotary_share(config, folder, family))
    return Architecture(
        family=replace(
            family,
            qkv_bias=family.qkv_bias or bool(config.get("attention_bias")),
            qk_norm=family.qk_norm or bool(config.get("use_qk_norm")),
        ),
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        groups=config.get("num_key_value_heads") or config["num_attention_heads"],
        head_size=head_size,
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        max_positions=config.get("max_position_embeddings", 32768),
        rope_base=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
        rotary=_rotary(config, rotary_size, head_size, folder),
        norm_epsilon=config.get("rms_norm_eps", 1e-6),
        tied=bool(config.get("tie_word_embeddings", False)),
        experts=_experts(config, family.router, folder) if family.router else None,
        rotary_size=rotary_size if rotary_size != head_size else 0,
        extra_layers=config.get("num_nextn_predict_layers") or config.get("num_mtp_layers") or 0,
    )


def _experts(config: dict[str, Any], router: Literal["softmax", "sigmoid"], folder: Path) -> Experts:
    counts = (config.get(name) for name in ("num_experts", "n_routed_experts", "num_local_experts"))
    normalised, per_token = bool(config.get("norm_topk_prob", router == "sigmoid")), config["num_experts_per_tok"]
    if router == "sigmoid" and not (normalised and per_token > 1):
        raise ConversionError(
            f"{folder}: norm_topk_prob {normalised} with num_experts_per_tok {per_token} in config.json is not"
            " supported"
        )
    return Experts(
        count=next(count for count in counts if count),
        per_token=per_token,
        intermediate=config["moe_intermediate_size"],
        normalised=normalised,
        router=router,
        scaling=float(config.get("routed_scaling_factor") or 1.0),
        shared=config["moe_intermediate_size"] * (config.get("n_shared_experts") or 0),
        dense_layers=config.get("first_k_dense_replace") or 0,
    )


def _rotary_share(config: dict[str, Any], folder: Path, family: Family) -> float:
    """The share of a head's dimensions that rotates; transformers 5 writes it among the rotary parameters."""
    rope = config.get("rope_parameters") or {}
    configured = rope.get("partial_rotary_factor") or config.get("partial_rotary_factor")
    share = float(configured or PARTIAL_ROTARY.get(config["model_type"], 1.0))
    if share != 1.0 and "partial_rotary_factor" not in family.optional:
        raise ConversionError(f"{folder}: partial_rotary_factor {share} in config.json is not supported")
    return share


def _rotary(config: dict[str, Any], size: int, head_size: int, folder: Path) -> Rotary | None:
    try:
        embedding = rotary(config, size)
    except ConversionError as error:
        raise ConversionError(f"{folder}: {error}") from error
    if embedding is not None and embedding.attention_factor != 1.0 and size != head_size:
        raise ConversionError(
            f"{folder}: rotary scaling with an attention factor in a part of each head is not supported"
        )
    return embedding
