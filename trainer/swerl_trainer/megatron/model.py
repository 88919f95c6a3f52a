"""The Megatron model of one rank: built for its position in the layout, filled from a Hugging Face folder.

Guarantees: `load_weights` fills every parameter this rank holds; `export_weights` yields the whole model in Hugging
Face names and order on every rank, gathered over tensor- and pipeline-parallel ranks, one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.conversion import (
    EMBEDDING,
    OUTPUT,
    ParameterMapping,
    check_tensors,
    dtype_of,
    from_megatron,
    hf_shapes,
    parameter_mappings,
    to_megatron,
)
from swerl_trainer.megatron.device import Device
from swerl_trainer.megatron.errors import ConversionError
from swerl_trainer.megatron.hf_folder import HFReader
from swerl_trainer.megatron.lora import Adapters
from swerl_trainer.megatron.process_group import chunks_per_stage, stage, stages
from torch import Tensor, nn

from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.transformer.enums import ModelType
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.transformer.transformer_config import TransformerConfig


def build_model(architecture: Architecture, config: TransformerConfig, device: Device) -> nn.ModuleList:
    """This rank's chunks of layers, each a GPTModel, with undefined weights."""
    chunks = range(chunks_per_stage())
    return nn.ModuleList(_build_chunk(architecture, config, device, chunk) for chunk in chunks)


def _build_chunk(architecture: Architecture, config: TransformerConfig, device: Device, chunk: int) -> GPTModel:
    model = GPTModel(
        config=config,
        transformer_layer_spec=device.block_spec(config, chunk),
        vocab_size=architecture.rows(config.tensor_model_parallel_size),
        max_sequence_length=architecture.max_positions,
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=chunk),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=chunk),
        parallel_output=True,
        share_embeddings_and_output_weights=architecture.tied,
        position_embedding_type="rope",
        rotary_base=architecture.rope_base,
        rotary_percent=(architecture.rotary_size or architecture.head_size) / architecture.head_size,
        vp_stage=chunk,
    )
    for module in model.modules():
        if isinstance(module, TopKRouter):
            module.frozen_expert_bias = True
            module._apply_expert_bias = _ignore_update
    model.model_type = ModelType.encoder_or_decoder
    if architecture.rotary is not None:
        model.rotary_pos_emb.inv_freq = torch.tensor(architecture.rotary.frequencies, dtype=torch.float32)
    return model.to(device.torch)


def _ignore_update(*_: Any, **__: Any) -> None:
    """In place of the count of tokens per expert, from which Megatron would compute other biases."""


@torch.no_grad()
def load_weights(model: nn.ModuleList, reader: HFReader, architecture: Architecture) -> None:
    """Fill this rank's shards. Raises ConversionError when the folder is not this architecture's."""
    check_tensors(reader.shapes(), architecture, str(reader.folder))
    rank, size = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_tensor_model_parallel_world_size()
    if architecture.tied and OUTPUT in reader.shapes():
        check_tied(reader, rank, size)
    for module in model.modules():
        if isinstance(module, TopKRouter):
            module._maintain_float32_expert_bias()
    parameters = tensors_of(model)
    for entry in owned(architecture):
        chunks = reader.chunks(entry.hf, entry.split, rank, size)
        parameter(parameters, entry).copy_(to_megatron(entry, chunks, architecture, size))
    name = f"{len(model) - 1}.output_layer.weight"
    if architecture.tied and name in parameters:  # the last stage's own copy of the embedding
        output = ParameterMapping((name,), (EMBEDDING,), 0, split=0)
        chunks = reader.chunks(output.hf, 0, rank, size)
        parameters[name].copy_(to_megatron(output, chunks, architecture, size))


def check_tied(reader: HFReader, rank: int, size: int) -> None:
    """Raises ConversionError when a folder ties its output layer and has another one: readers would disagree."""
    embedding, output = reader.chunks([EMBEDDING, OUTPUT], 0, rank, size)
    if not torch.equal(embedding, output):
        raise ConversionError(
            f"{reader.folder}: {OUTPUT} differs from {EMBEDDING}, but config.json has tie_word_embeddings true: set"
            f" that to false, or remove {OUTPUT}"
        )


def tensors_of(model: nn.ModuleList) -> dict[str, Tensor]:
    """Parameters, and the routers' biases, which are none."""
    biases = {name: b for name, b in model.named_buffers() if name.endswith("router.expert_bias")}
    return dict(model.named_parameters()) | biases


@torch.no_grad()
def export_weights(
    model: nn.ModuleList,
    architecture: Architecture,
    names: Sequence[str] | None = None,
    adapters: Adapters | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Whole tensors in Hugging Face names, with `adapters` merged; with `names` only those. A collective of all
    tensor/pipeline ranks."""
    selected = [entry for entry in _mappings(architecture) if names is None or set(entry.hf) & set(names)]
    for name, whole in _whole_tensors(model, architecture, selected, hf_shapes(architecture)):
        factors = adapters.factors_of(name) if adapters else []
        if adapters and factors:
            (_, a), (_, b) = _whole_tensors(model, architecture, factors, adapters.shapes())
            whole = adapters.merged(whole, a, b)
        if names is None or name in names:
            yield name, whole


@torch.no_grad()
def export_adapters(
    model: nn.ModuleList, architecture: Architecture, adapters: Adapters
) -> Iterator[tuple[str, Tensor]]:
    """Whole factors by name, as `adapter_shapes` has them. A collective of all tensor/pipeline ranks."""
    return _whole_tensors(model, architecture, adapters.mappings(), adapters.shapes())


def _whole_tensors(
    model: nn.ModuleList,
    architecture: Architecture,
    entries: Sequence[ParameterMapping],
    shapes: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of `entries` on every rank, one parameter at a time."""
    parameters = tensors_of(model)
    like = next(iter(parameters.values()))
    for entry in entries:
        local = entry.stage == stage()
        gathered = list(_gather(parameters, entry, architecture)) if local else []
        for position, name in enumerate(entry.hf):
            whole = gathered[position][1] if local else like.new_empty(shapes[name], dtype=dtype_of(name, like.dtype))
            if stages() > 1:
                whole = whole.contiguous()
                group = parallel_state.get_pipeline_model_parallel_group()
                dist.broadcast(whole, src=dist.get_global_rank(group, entry.stage), group=group)
            yield name, whole


def _mappings(architecture: Architecture) -> list[ParameterMapping]:
    """Every parameter of the model, in the layout of this rank's groups."""
    experts = parallel_state.get_expert_model_parallel_world_size()
    return parameter_mappings(architecture, stages(), experts, chunks_per_stage())


def _gather(
    parameters: dict[str, Tensor], entry: ParameterMapping, architecture: Architecture
) -> Iterator[tuple[str, Tensor]]:
    if entry.expert_rank is not None:
        return _gather_expert(parameters, entry, architecture)
    return gather_shards(parameters, entry, architecture)


def gather_shards(
    parameters: dict[str, Tensor], entry: ParameterMapping, architecture: Architecture
) -> Iterator[tuple[str, Tensor]]:
    """The whole tensors of a parameter of this stage that is no expert's, on every tensor-parallel rank."""
    shard = parameter(parameters, entry).detach().contiguous()
    size = parallel_state.get_tensor_model_parallel_world_size()
    shards = [shard]
    if entry.split is not None and size > 1:
        shards = [torch.empty_like(shard) for _ in range(size)]
        dist.all_gather(shards, shard, group=parallel_state.get_tensor_model_parallel_group())
    return from_megatron(entry, shards, architecture)


def _gather_expert(
    parameters: dict[str, Tensor], entry: ParameterMapping, architecture: Architecture
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of one expert, on every expert-parallel rank of the stage."""
    group = parallel_state.get_expert_model_parallel_group()
    assert entry.expert_rank is not None
    if entry.expert_rank == group.rank():
        tensors = dict(from_megatron(entry, [parameter(parameters, entry).detach()], architecture))
    else:
        like, shapes = next(iter(parameters.values())), hf_shapes(architecture)
        tensors = {name: like.new_empty(shapes[name]) for name in entry.hf}
    for name, tensor in tensors.items():
        whole = tensor.contiguous()
        if group.size() > 1:
            dist.broadcast(whole, src=dist.get_global_rank(group, entry.expert_rank), group=group)
        yield name, whole


def owned(architecture: Architecture) -> Iterator[ParameterMapping]:
    """The parameters that this rank holds, in the order of the Hugging Face model."""
    own, expert_rank = stage(), parallel_state.get_expert_model_parallel_rank()
    entries = _mappings(architecture)
    return (entry for entry in entries if entry.stage == own and entry.expert_rank in (None, expert_rank))


def parameter(parameters: dict[str, Tensor], entry: ParameterMapping) -> Tensor:
    """This rank's shard of `entry`."""
    return next(parameters[name] for name in entry.megatron if name in parameters)
