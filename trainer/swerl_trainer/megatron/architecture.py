"""The architecture of a model, from its Hugging Face folder.

Guarantees: only architectures whose every tensor is converted exactly are accepted; anything else is a typed error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerl_api import TrainerSpec
from swerl_trainer.megatron.errors import ConversionError, LayoutError
from swerl_trainer.megatron.rotary import Rotary, rotary


@dataclass(frozen=True)
class Family:
    """What the models of one `model_type` have beyond the common parts."""

    qkv_bias: bool = False
    qk_norm: bool = False  # of each head's query and key
    experts: bool = False  # a mixture of experts in every layer


FAMILIES = {
    "qwen2": Family(qkv_bias=True),  # Qwen2.5 too
    "qwen3": Family(qk_norm=True),
    "qwen3_moe": Family(qk_norm=True, experts=True),
    "llama": Family(),  # Llama 3 to 3.3
}
# Fields of config.json that would change what is computed, and their values that do not.
_UNSUPPORTED = {
    "use_sliding_window": (None, False),
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "hidden_act": (None, "silu"),
    "partial_rotary_factor": (None, 1.0),
    "decoder_sparse_step": (None, 1),
    "mlp_only_layers": (None, []),
}


@dataclass(frozen=True)
class Experts:
    """The mixture of experts of each layer, chosen by the softmax of a router."""

    count: int
    per_token: int
    intermediate: int
    normalised: bool  # the weights of a token's experts sum to 1


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

    def check(self, trainer: TrainerSpec) -> None:
        """Raises LayoutError when the layout of `trainer` cannot divide the model evenly."""
        for size, name, parts, axis in (
            (self.heads, "attention heads", trainer.tensor_parallel, "tensor"),
            (self.groups, "key/value heads", trainer.tensor_parallel, "tensor"),
            (self.intermediate, "intermediate size", trainer.tensor_parallel, "tensor"),
            (self.vocabulary, "vocabulary", trainer.tensor_parallel, "tensor"),
            (self.layers, "layers", trainer.pipeline_parallel, "pipeline"),
        ):
            if size % parts:
                raise LayoutError(f"{name} {size} cannot be divided over {axis}Parallel {parts}: choose a divisor")
        if self.experts is None and trainer.expert_parallel != 1:
            raise LayoutError(
                f"expertParallel {trainer.expert_parallel} needs a mixture of experts; this model is dense"
            )
        if self.experts is not None and self.experts.count % trainer.expert_parallel:
            raise LayoutError(
                f"{self.experts.count} experts cannot be divided over expertParallel {trainer.expert_parallel}: choose"
                " a divisor"
            )


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
        if config.get(field) not in harmless:
            raise ConversionError(f"{folder}: {field} {config[field]!r} in config.json is not supported")
    rope = config.get("rope_parameters") or {}
    head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return Architecture(
        family=family,
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        groups=config.get("num_key_value_heads") or config["num_attention_heads"],
        head_size=head_size,
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        max_positions=config.get("max_position_embeddings", 32768),
        rope_base=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
        rotary=_rotary(config, head_size, folder),
        norm_epsilon=config.get("rms_norm_eps", 1e-6),
        tied=bool(config.get("tie_word_embeddings", False)),
        experts=_experts(config) if family.experts else None,
    )


def _experts(config: dict[str, Any]) -> Experts:
    return Experts(
        count=config.get("num_experts") or config["num_local_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        normalised=bool(config.get("norm_topk_prob", False)),
    )


def _rotary(config: dict[str, Any], head_size: int, folder: Path) -> Rotary | None:
    try:
        return rotary(config, head_size)
    except ConversionError as error:
        raise ConversionError(f"{folder}: {error}") from error
