"""A checkpoint's weights as a folder in Hugging Face format, on the CPU of one process, without the optimizer.

Guarantees: the tensors are those the training ranks held, under whatever layout they were saved; the folder appears
complete or not at all. Memory: the model's weights once, in `dtype`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from swerl_api import AlgorithmSpec, TrainerSpec
from swerl_trainer.megatron.architecture import Architecture, read_architecture
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.device import Device
from swerl_trainer.megatron.errors import ConversionError
from swerl_trainer.megatron.hf_folder import open_folder
from swerl_trainer.megatron.lora import Adapters
from swerl_trainer.megatron.model import build_model, load_weights
from swerl_trainer.megatron.model_config import transformer_config
from swerl_trainer.megatron.process_group import join_process_group
from swerl_trainer.megatron.save_hf import save_adapter, save_model
from swerl_trainer.megatron.state import lora_of, restore_weights
from torch import nn

from megatron.core import parallel_state


def export_checkpoint(
    checkpoint: Path, model: Path, folder: Path, config: RankConfig, *, adapter_only: bool = False
) -> None:
    """Write the weights of `checkpoint`, adapters merged, with the configuration and tokenizer of `model` to `folder`;
    with `adapter_only` the adapters alone, in the format of PEFT.

    Raises TrainerError and ConversionError when checkpoint and model do not fit; this process joins no other.
    """
    device, architecture = Device(cuda=False), read_architecture(model)
    with device.active(), tempfile.TemporaryDirectory() as rendezvous:
        join_process_group(config, device, 0, 1, f"file://{rendezvous}/store")
        try:
            built = build_model(architecture, transformer_config(architecture, config, device), device)
            adapters = _with_adapters(built, checkpoint, model, architecture)
            restore_weights(checkpoint, built, adapters)
            if not adapter_only:
                save_model(folder, model, built, architecture, adapters)
            elif adapters is None:
                raise ConversionError(f"{checkpoint} has no adapters: its job has no model.lora; leave --adapter out")
            else:
                save_adapter(folder, model, built, architecture, adapters)
        finally:
            parallel_state.destroy_model_parallel()
            dist.destroy_process_group()


def _with_adapters(built: nn.ModuleList, checkpoint: Path, model: Path, architecture: Architecture) -> Adapters | None:
    """The adapters of a checkpoint that has them instead of weights, on the weights of `model`."""
    lora = lora_of(checkpoint)
    if lora is None:
        return None
    with open_folder(model) as reader:
        load_weights(built, reader, architecture)
    return Adapters(built, architecture, lora, seed=0)


def main() -> None:
    """`python -m swerl_trainer.megatron.export CHECKPOINT MODEL FOLDER --dtype DTYPE [--adapter]`."""
    parser = argparse.ArgumentParser(prog="swerl_trainer.megatron.export", description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="complete checkpoint of a SweRLJob")
    parser.add_argument("model", type=Path, help="the model it was trained from, in Hugging Face format")
    parser.add_argument("folder", type=Path, help="the folder to write")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16", help="that of the training")
    parser.add_argument("--adapter", action="store_true", help="write the adapters alone, in the format of PEFT")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    config = RankConfig(str(options.model), options.dtype, TrainerSpec(image="unused"), AlgorithmSpec())
    export_checkpoint(options.checkpoint, options.model, options.folder, config, adapter_only=options.adapter)


if __name__ == "__main__":
    main()
