"""Where this rank computes: a CUDA device when there is one, else the CPU."""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from swerl_trainer.megatron.errors import TrainerError


@dataclass(frozen=True)
class Device:
    """The device of one rank and what follows from it."""

    cuda: bool

    @classmethod
    def detect(cls) -> Device:
        """Raises TrainerError on a CUDA machine without Transformer Engine, which packed attention needs there."""
        cuda = torch.cuda.is_available()
        if cuda and importlib.util.find_spec("transformer_engine") is None:
            raise TrainerError("training on CUDA needs transformer_engine in the trainer image; it is not installed")
        return cls(cuda=cuda)

    @cached_property
    def torch(self) -> torch.device:
        """Where tensors live."""
        return torch.device("cuda", torch.cuda.current_device()) if self.cuda else torch.device("cpu")

    @property
    def backend(self) -> str:
        """Backend of torch.distributed."""
        return "nccl" if self.cuda else "gloo"

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Megatron may only be called within it."""
        if self.cuda:
            return contextlib.nullcontext()
        from swerl_trainer.megatron.cpu import megatron_on_cpu

        return megatron_on_cpu()

    def layer_spec(self) -> Any:
        """Layer spec of Qwen3: Transformer Engine's on CUDA, Megatron's local one with packed attention on the CPU."""
        if self.cuda:
            from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec

            return get_gpt_layer_with_transformer_engine_spec(qk_layernorm=True)
        from swerl_trainer.megatron.cpu import layer_spec

        return layer_spec()

    def config(self, tensor_parallel: int) -> dict[str, Any]:
        """Arguments of TransformerConfig that depend on the device."""
        if self.cuda:
            return {"sequence_parallel": tensor_parallel > 1, "bias_dropout_fusion": True, "apply_rope_fusion": True}
        from swerl_trainer.megatron.cpu import CONFIG

        return CONFIG
