"""What a training rank needs to know before it builds anything. Pure data: no torch, no Ray, no Megatron."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from swerl_trainer.algorithm.settings import LossSettings
from swerl_trainer.megatron.errors import LayoutError


@dataclass(frozen=True)
class Layout:
    """How the model is spread over the ranks; what is left over is data parallel."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1

    def data(self, world_size: int) -> int:
        """Data-parallel size among `world_size` ranks. Raises LayoutError when it is no whole number."""
        model = self.tensor * self.pipeline * self.context
        if world_size % model:
            raise LayoutError(
                f"{world_size} training ranks cannot hold tensor {self.tensor} x pipeline {self.pipeline} x context "
                f"{self.context}: make trainer.replicas x gpus a multiple of {model}"
            )
        return world_size // model


@dataclass(frozen=True)
class Optimizer:
    """AdamW with a constant learning rate after a linear warm-up."""

    lr: float = 1e-6
    warmup_steps: int = 0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    max_grad_norm: float = 1.0  # 0 turns clipping off


@dataclass(frozen=True)
class TrainerSettings:
    """One training group."""

    model: str  # folder with config.json and *.safetensors in Hugging Face format
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    layout: Layout = field(default_factory=Layout)
    optimizer: Optimizer = field(default_factory=Optimizer)
    loss: LossSettings = field(default_factory=LossSettings)
    minibatches: int = 1  # optimiser steps per batch
    max_tokens_per_rank: int = 8192  # token budget of one packed micro-batch; a longer sequence gets one of its own
    recompute: Literal["none", "selective", "full"] = "none"
    offload: bool = False  # optimizer state in host memory; without effect on a CPU
    seed: int = 1
    communication_timeout: float = 1800.0  # seconds a collective may take before the rank gives up
