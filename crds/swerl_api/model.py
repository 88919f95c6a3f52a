"""The model that a SweRLJob trains."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Rule, Text
from .source import SourceSpec

LoraTarget = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ATTENTION_TARGETS: tuple[LoraTarget, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")


class LoraSpec(ApiModel):
    """Low-rank adapters beside frozen weights (Hu et al. 2021): the only weights that are trained and saved."""

    rank: Annotated[int, Field(ge=1, le=512)] = 32
    """Rank of every adapter."""
    alpha: Annotated[float, Field(gt=0, le=65536)] = 64.0
    """An adapter adds alpha / rank * B A to its matrix."""
    targets: Annotated[list[LoraTarget], Field(min_length=1, max_length=7)] = Field(
        default_factory=lambda: list(ATTENTION_TARGETS)
    )
    """Matrices with an adapter, in every layer, by their names in Hugging Face format. gate_proj, up_proj and down_proj
    are for models without a mixture of experts."""

    update: Literal["merged", "adapter"] = "merged"
    """What engines get. merged: the target matrices with their adapters added, into running requests. adapter: the
    adapters alone, through checkpoint.volume; running requests are cut, and continue with them; engines compute them
    beside their matrices, which costs speed."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.targets.all(t, self.targets.exists_one(u, u == t))", "targets must differ", ".targets"),
    )


class ModelSpec(ApiModel):
    """The model that is trained."""

    source: SourceSpec
    """Folder in Hugging Face format: config.json, safetensors, tokenizer. Families: qwen2 (Qwen2.5), qwen3, qwen3_moe,
    glm4_moe (GLM-4.5) and llama (Llama 3), with default, linear, llama3 or yarn rotary embedding."""
    tokenizer: Text | None = None
    """Path of the tokenizer inside the trainer Pods; absent means the model's own folder."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format of weights and activations, in trainer and engines alike; float32 is meant for CPU."""
    lora: LoraSpec | None = None
    """Train adapters and freeze the model; absent trains all weights. A learning rate for adapters is usually ten times
    that for all weights."""
