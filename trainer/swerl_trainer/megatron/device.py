"""The device and kernels of a rank: CUDA if there is a device, else the CPU; Transformer Engine's kernels if installed,
else torch's.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

logger = logging.getLogger(__name__)

# Dense bfloat16 operations per second, from the makers' data sheets, by a part of the card's name.
PEAK_FLOPS = {
    "B200": 2250e12,
    "H100": 989e12,
    "H200": 989e12,
    "H800": 989e12,
    "A100": 312e12,
    "A800": 312e12,
    "L40S": 362e12,
}


@dataclass(frozen=True)
class Device:
    """The device of one rank, and the settings that depend on it."""

    cuda: bool
    transformer_engine: bool = False  # on CUDA only
    overlaps: bool = False  # communication of data-parallel ranks runs beside computation
    own_memory: bool = False  # apart from the host's, to which the optimizer can move

    @classmethod
    def detect(cls) -> Device:
        """The device of this process."""
        if not torch.cuda.is_available():
            return cls(cuda=False)
        from megatron.core.extensions.transformer_engine import HAVE_TE

        if not HAVE_TE:
            logger.warning("transformer_engine is not installed: no fused kernels")
        return cls(cuda=True, transformer_engine=bool(HAVE_TE), overlaps=True, own_memory=True)

    @cached_property
    def torch(self) -> torch.device:
        """The device of tensors."""
        return torch.device("cuda", torch.cuda.current_device()) if self.cuda else torch.device("cpu")

    @property
    def peak_flops(self) -> float | None:
        """Dense bfloat16 operations per second; None where the card is not known."""
        return peak_flops(torch.cuda.get_device_name()) if self.cuda else None

    @property
    def backend(self) -> str:
        """Backend of torch.distributed."""
        return "nccl" if self.cuda else "gloo"

    def active(self) -> contextlib.AbstractContextManager[None]:
        """The context in which Megatron may be called."""
        if self.cuda:
            return contextlib.nullcontext()
        from swerl_trainer.megatron.cpu import megatron_on_cpu

        return megatron_on_cpu()

    def block_spec(self, config: Any, chunk: int) -> Any:
        """Spec of the layers of a pipeline stage's chunk: Transformer Engine's, or Megatron's local one with torch's
        kernels."""
        if self.transformer_engine:
            from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec

            return get_gpt_decoder_block_spec(config, use_transformer_engine=True, vp_stage=chunk)
        from swerl_trainer.megatron.torch_attention import block_spec

        return block_spec(config, chunk)

    def config(self, tensor_parallel: int) -> dict[str, Any]:
        """Arguments of TransformerConfig that depend on the device."""
        shared: dict[str, Any] = {"sequence_parallel": tensor_parallel > 1}
        if self.transformer_engine:
            return {**shared, "bias_dropout_fusion": True, "apply_rope_fusion": True, "moe_grouped_gemm": True}
        if self.cuda:
            return shared
        from swerl_trainer.megatron.cpu import CONFIG

        return {**shared, **CONFIG}


def peak_flops(card: str) -> float | None:
    """Dense bfloat16 operations per second of the card with this name; None if it is not known."""
    return next((flops for name, flops in PEAK_FLOPS.items() if name in card), None)
