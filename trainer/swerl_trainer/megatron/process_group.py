"""The process groups of one rank."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.device import Device

from megatron.core import parallel_state
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed


def join_process_group(config: RankConfig, device: Device, rank: int, world_size: int, init_method: str) -> None:
    """Join the group of all ranks and Megatron's groups within it; seed this rank."""
    trainer = config.trainer
    dist.init_process_group(
        device.backend,
        init_method=init_method,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=config.communication_timeout),
    )
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=trainer.tensor_parallel,
        pipeline_model_parallel_size=trainer.pipeline_parallel,
        virtual_pipeline_model_parallel_size=trainer.virtual_pipeline if trainer.virtual_pipeline > 1 else None,
        context_parallel_size=trainer.context_parallel,
        expert_model_parallel_size=trainer.expert_parallel,
        expert_tensor_parallel_size=1,
    )
    torch.manual_seed(config.algorithm.seed)
    # No dropout anywhere: the tracker without CUDA generators serves both devices.
    model_parallel_cuda_manual_seed(config.algorithm.seed, inference_rng_tracker=True, force_reset_rng=True)


def of_all_ranks(value: Any) -> list[Any]:
    """The `value` of each rank, in order of ranks; a collective."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def stage() -> int:
    """The pipeline stage of this rank."""
    return int(parallel_state.get_pipeline_model_parallel_rank())


def stages() -> int:
    """Pipeline stages."""
    return int(parallel_state.get_pipeline_model_parallel_world_size())


def chunks_per_stage() -> int:
    """Chunks of layers that each pipeline stage has; above 1 the stages are interleaved."""
    return int(parallel_state.get_virtual_pipeline_model_parallel_world_size() or 1)
