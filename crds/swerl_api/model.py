"""The model that a SweRLJob trains."""

from __future__ import annotations

from typing import Literal

from .base import ApiModel, Text
from .source import SourceSpec


class ModelSpec(ApiModel):
    """The model that is trained."""

    source: SourceSpec
    """Folder in Hugging Face format: config.json, safetensors, tokenizer. Families: qwen2 (Qwen2.5), qwen3, qwen3_moe
    and llama (Llama 3), with default, linear, llama3 or yarn rotary embedding."""
    tokenizer: Text | None = None
    """Path of the tokenizer inside the trainer Pods; absent means the model's own folder."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format of weights and activations, in trainer and engines alike; float32 is meant for CPU."""
