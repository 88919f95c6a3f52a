"""Folders that rank 0 writes while all ranks gather: the model, or its adapters alone. Each is a collective."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import torch.distributed as dist
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.hf_folder import write_adapter, write_folder
from swerl_trainer.megatron.lora import Adapters, peft_config
from swerl_trainer.megatron.model import export_adapters, export_weights
from torch import nn


def save_model(
    folder: Path, like: Path, model: nn.ModuleList, architecture: Architecture, adapters: Adapters | None
) -> None:
    """Write the weights, adapters merged, with the configuration and tokenizer of the folder `like`."""
    tensors = export_weights(model, architecture, adapters=adapters)
    if dist.get_rank() == 0:
        write_folder(folder, like, tensors)
    deque(tensors, maxlen=0)
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
