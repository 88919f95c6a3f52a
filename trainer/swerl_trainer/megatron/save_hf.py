"""Folders that all ranks write together: the model, or its adapters alone. Each is a collective of all ranks.

Guarantees: each rank writes the weights that it sends in an update, to files of its own, while the others write theirs.
No tensor leaves its pipeline stage, and a rank holds one parameter whole at a time. The folder has its name only when
every file is complete. Adapters are small and have one file in PEFT's format, so rank 0 gathers them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.hf_folder import (
    SHARD_BYTES,
    begin_folder,
    building_of,
    end_folder,
    write_adapter,
    write_files,
    write_index,
)
from swerl_trainer.megatron.lora import Adapters, peft_config
from swerl_trainer.megatron.model import export_adapters
from swerl_trainer.megatron.process_group import of_all_ranks
from swerl_trainer.megatron.weight_part import divided, helped_names, own_names, part_weights
from swerl_trainer.weight_bucket import WeightBucket
from torch import nn


def save_model(
    folder: Path, like: Path, model: nn.ModuleList, architecture: Architecture, adapters: Adapters | None
) -> None:
    """Write the weights, adapters merged, with the configuration and tokenizer of the folder `like`."""
    own = own_names(architecture)
    buckets = divided(own, model, architecture, SHARD_BYTES)
    pids, parts = zip(*of_all_ranks((os.getpid(), buckets)), strict=True)
    building = building_of(folder, pids[0])
    if dist.get_rank() == 0:
        begin_folder(building, like)
    dist.barrier()
    weights = part_weights(model, architecture, [*helped_names(architecture), *own], adapters)
    writes = set(own)
    write_files(building, _files(parts, dist.get_rank()), (each for each in weights if each[0] in writes))
    deque(weights, maxlen=0)  # those that others write
    dist.barrier()
    if dist.get_rank() == 0:
        write_index(building, _files(parts))
        end_folder(building, folder)
    dist.barrier()


def save_adapter(
    folder: Path, base: Path, model: nn.ModuleList, architecture: Architecture, adapters: Adapters
) -> None:
    """Write the adapters of the model in the folder `base` in the format of PEFT."""
    factors = export_adapters(model, architecture, adapters)
    if dist.get_rank() == 0:
        write_adapter(folder, peft_config(adapters.lora, str(base)), factors)
    deque(factors, maxlen=0)
    dist.barrier()


def _files(parts: Sequence[Sequence[WeightBucket]], rank: int | None = None) -> dict[str, WeightBucket]:
    """The files of the model and what each holds, numbered in the order of the ranks; with `rank` only that rank's."""
    numbered = enumerate(((owner, bucket) for owner, buckets in enumerate(parts) for bucket in buckets), start=1)
    return {f"model-{n:05d}.safetensors": bucket for n, (owner, bucket) in numbered if rank in (None, owner)}
