"""The optimizer of one rank: AdamW over data-parallel shards, its state on the device or in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from swerl_trainer.megatron.config import RankConfig, initial_lr
from swerl_trainer.megatron.device import Device
from swerl_trainer.megatron.errors import TrainerError
from swerl_trainer.megatron.optimizer_parts import keep_parts

from megatron.core.distributed import DistributedDataParallel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

ADAM_EPSILON = 1e-8

# On the host Megatron uses its hybrid optimizer of torch's AdamW, which takes gradients like the precision-aware one.
_OFFLOAD: dict[str, Any] = {
    "optimizer_cpu_offload": True,
    "optimizer_offload_fraction": 1.0,
    "overlap_cpu_optimizer_d2h_h2d": True,
    "use_precision_aware_optimizer": True,
}


def build_optimizer(modules: Sequence[DistributedDataParallel], rank: RankConfig, device: Device) -> Any:
    """Megatron's distributed optimizer of `modules`. Raises TrainerError when `offload` is not possible."""
    algorithm, dtype = rank.algorithm, getattr(torch, rank.dtype)
    offload = rank.trainer.offload and device.own_memory
    if offload and dtype != torch.bfloat16:
        raise TrainerError(
            f"trainer.offload needs model.dtype bfloat16, not {rank.dtype}: Megatron's optimizer on the host takes no "
            "views of fp32 weights; set dtype to bfloat16 or offload to false"
        )
    config = OptimizerConfig(
        optimizer="adam",
        lr=initial_lr(algorithm),
        weight_decay=algorithm.weight_decay,
        adam_beta1=algorithm.adam_beta1,
        adam_beta2=algorithm.adam_beta2,
        adam_eps=ADAM_EPSILON,
        clip_grad=algorithm.max_grad_norm,
        bf16=dtype == torch.bfloat16,
        params_dtype=dtype,
        use_distributed_optimizer=True,
        **(_OFFLOAD if offload else {}),
    )
    optimizer = get_megatron_optimizer(config, list(modules))
    keep_parts(optimizer)
    return optimizer
