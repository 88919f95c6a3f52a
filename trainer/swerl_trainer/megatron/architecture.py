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

SUPPORTED = ("qwen3",)


@dataclass(frozen=True)
class Architecture:
    """Shape of a dense Qwen3 model."""

    layers: int
    hidden: int
    heads: int
    groups: int  # key/value heads
    head_size: int
    intermediate: int
    vocabulary: int
    max_positions: int
    rope_base: float
    norm_epsilon: float
    tied: bool  # output layer shares the embedding

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
        if trainer.expert_parallel != 1:
            raise LayoutError(
                f"expertParallel {trainer.expert_parallel} needs a mixture of experts; this model is dense"
            )


def read_architecture(folder: Path) -> Architecture:
    """Architecture in `folder/config.json`. Raises ConversionError when it is missing or not supported."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ConversionError(f"cannot read the model configuration {folder / 'config.json'}: {error}") from error
    if config.get("model_type") not in SUPPORTED:
        raise ConversionError(f"{folder}: model type {config.get('model_type')!r} is not one of {', '.join(SUPPORTED)}")
    if config.get("attention_bias") or config.get("use_sliding_window"):
        raise ConversionError(f"{folder}: attention bias and sliding windows are not supported")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", "default") != "default":
        raise ConversionError(f"{folder}: rotary embedding type {rope['rope_type']!r} is not supported")
    return Architecture(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        groups=config.get("num_key_value_heads") or config["num_attention_heads"],
        head_size=config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        max_positions=config.get("max_position_embeddings", 32768),
        rope_base=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
        norm_epsilon=config.get("rms_norm_eps", 1e-6),
        tied=bool(config.get("tie_word_embeddings", False)),
    )
