"""Low-rank adapters beside frozen weights: y = W x + alpha / rank * B A x (Hu et al. 2021, eq. 3).

Guarantees: only adapters have gradients; B starts at 0, so the model starts as the one in its folder; start values and
names in checkpoints do not depend on the layout; `merged` is W + alpha / rank * B A in the weights' number format.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from swerl_api.model import ATTENTION_TARGETS, LoraSpec
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.conversion import ParameterMapping, fuse_outputs, hf_shapes, layer_place
from swerl_trainer.megatron.errors import LayoutError
from swerl_trainer.megatron.process_group import chunks_per_stage, stage, stages
from torch import Tensor, nn

from megatron.core import parallel_state
from megatron.core.dist_checkpointing import ShardedTensor
from megatron.core.tensor_parallel import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
    reduce_from_tensor_model_parallel_region,
    reduce_scatter_to_sequence_parallel_region,
    set_tensor_model_parallel_attributes,
)

# Megatron's linear layer of each target, below a decoder layer, and its part of the Hugging Face name.
PLACES = {
    "q_proj": ("self_attention.linear_qkv", "self_attn"),
    "k_proj": ("self_attention.linear_qkv", "self_attn"),
    "v_proj": ("self_attention.linear_qkv", "self_attn"),
    "o_proj": ("self_attention.linear_proj", "self_attn"),
    "gate_proj": ("mlp.linear_fc1", "mlp"),
    "up_proj": ("mlp.linear_fc1", "mlp"),
    "down_proj": ("mlp.linear_fc2", "mlp"),
}
FUSED = {
    "self_attention.linear_qkv": ("q_proj", "k_proj", "v_proj"),
    "mlp.linear_fc1": ("gate_proj", "up_proj"),
}


class Projection(nn.Module):
    """The factors of one matrix: `a` [rank, inputs], `b` [outputs, rank], each of this rank's part."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(a), nn.Parameter(b)


class LinearAdapter(nn.Module):
    """The projections of one of Megatron's linear layers, added to its output by a forward hook."""

    def __init__(
        self, place: str, projections: dict[str, Projection], architecture: Architecture, scale: float
    ) -> None:
        super().__init__()
        self.projections = nn.ModuleDict(projections)
        self.scale = scale
        self.enabled = True
        self._fused = FUSED.get(place, ())
        self._architecture = architecture

    def attach(self, linear: Any) -> None:
        """Add to the output of `linear` from now on."""
        linear.adapter = self
        linear.register_forward_hook(self._add)

    def _add(self, linear: Any, inputs: tuple[Tensor, ...], result: tuple[Tensor, Tensor | None]) -> Any:
        if not self.enabled:
            return result
        output, bias = result
        config = linear.config
        added = self._column(linear, inputs[0], config, output) if self._fused else self._row(inputs[0], config)
        return output + self.scale * added, bias

    def _column(self, linear: Any, x: Tensor, config: Any, output: Tensor) -> Tensor:
        """Outputs are divided over tensor-parallel ranks: every rank's B gives its own part of them."""
        norm = getattr(linear, "layer_norm_weight", None)  # Transformer Engine's layer has its input's norm within
        if norm is not None:
            x = F.rms_norm(x, (x.shape[-1],), norm, config.layernorm_epsilon)
        names = list(self.projections)
        low = F.linear(x, torch.cat([self._factors(name)[0] for name in names]))
        if config.sequence_parallel:
            low = gather_from_sequence_parallel_region(low)
        else:
            low = copy_to_tensor_model_parallel_region(low)
        parts = low.chunk(len(names), dim=-1)
        projected = {name: F.linear(part, self._factors(name)[1]) for name, part in zip(names, parts, strict=True)}
        sizes = self._sizes(output.shape[-1])
        outputs = [
            projected[name] if name in projected else output.new_zeros(*output.shape[:-1], size)
            for name, size in zip(self._fused, sizes, strict=True)
        ]
        return fuse_outputs(outputs, self._architecture)

    def _row(self, x: Tensor, config: Any) -> Tensor:
        """Inputs are divided over tensor-parallel ranks: their sum over the ranks is what every rank's B takes."""
        (name,) = self.projections
        a, b = self._factors(name)
        low = F.linear(x, a)
        if config.sequence_parallel:
            low = reduce_scatter_to_sequence_parallel_region(low)
        else:
            low = reduce_from_tensor_model_parallel_region(low)
        return F.linear(low, b)

    def _factors(self, name: str) -> tuple[Tensor, Tensor]:
        projection: Any = self.projections[name]
        return projection.a, projection.b

    def _sizes(self, outputs: int) -> Sequence[int]:
        """Of this rank's fused `outputs`, those of each projection."""
        a = self._architecture
        shares = [a.heads, a.groups, a.groups] if len(self._fused) == 3 else [1, 1]
        return [outputs * share // sum(shares) for share in shares]


class Adapters:
    """All adapters of one rank's part of a model, whose own weights it freezes."""

    def __init__(self, model: nn.ModuleList, architecture: Architecture, lora: LoraSpec, seed: int) -> None:
        self.lora = lora
        self._architecture = architecture
        self._model = model
        self._scale = lora.alpha / lora.rank
        self._shapes = adapter_shapes(architecture, lora)
        self._factors: dict[str, list[ParameterMapping]] = {}
        for entry in self.mappings():
            self._factors.setdefault(entry.hf[0].replace(".lora_A", "").replace(".lora_B", ""), []).append(entry)
        model.requires_grad_(False)
        self._mine = [entry for entry in self.mappings() if entry.stage == stage()]
        for number, chunk in enumerate(model):
            self._attach(number, chunk, seed)
        if parallel_state.is_pipeline_first_stage():
            first: Any = model[0]
            first.embedding.register_forward_hook(_with_gradient)

    def mappings(self) -> list[ParameterMapping]:
        """Every factor of the whole model, A then B of each matrix."""
        return adapter_mappings(self._architecture, self.lora, stages(), chunks_per_stage())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every whole factor."""
        return self._shapes

    def factors_of(self, name: str) -> list[ParameterMapping]:
        """The factors A and B of the Hugging Face weight `name`; empty when it has none."""
        return self._factors.get(name, [])

    def merged(self, weight: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """`weight` with its adapter; all three whole."""
        return (weight.float() + self._scale * (b.float() @ a.float())).to(weight.dtype)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Context in which the model is the reference: it computes without adapters, as at the start."""
        adapters = [module for module in self._model.modules() if isinstance(module, LinearAdapter)]
        for adapter in adapters:
            adapter.enabled = False
        try:
            yield
        finally:
            for adapter in adapters:
                adapter.enabled = True

    def sharded(self) -> dict[str, ShardedTensor]:
        """This rank's factors, for Megatron's checkpoints, by names that do not depend on the layout."""
        tensor = parallel_state.get_tensor_model_parallel_rank()
        size = parallel_state.get_tensor_model_parallel_world_size()
        data = parallel_state.get_data_parallel_rank(with_context_parallel=True)
        parameters = dict(self._model.named_parameters())
        found = {}
        for entry in self._mine:
            offsets = [] if entry.split is None else [(entry.split, tensor, size)]
            replica = (0, tensor if entry.split is None else 0, data)
            name, parameter = entry.hf[0], parameters[entry.megatron[0]]
            found[name] = ShardedTensor.from_rank_offsets(name, parameter, *offsets, replica_id=replica)
        return found

    @torch.no_grad()
    def load(self, loaded: dict[str, Tensor]) -> None:
        """Take the factors that `sharded` described."""
        parameters = dict(self._model.named_parameters())
        for entry in self._mine:
            parameters[entry.megatron[0]].copy_(loaded[entry.hf[0]])

    def _attach(self, number: int, chunk: Any, seed: int) -> None:
        """Give the layers of chunk `number` their adapters."""
        config = chunk.config
        like = next(chunk.parameters())
        for local, layer in enumerate(chunk.decoder.layers):
            below = f"{number}.decoder.layers.{local}."
            for place in dict.fromkeys(PLACES[target][0] for target in self.lora.targets):
                targets = [t for t in FUSED.get(place, (_only(place),)) if t in self.lora.targets]
                projections: dict[str, Any] = {t: self._projection(t, below, like, seed) for t in targets}
                if config.sequence_parallel:
                    for projection in projections.values():  # its gradient is of this rank's tokens only
                        (projection.a if place in FUSED else projection.b).sequence_parallel = True
                adapter = LinearAdapter(place, projections, self._architecture, self._scale)
                adapter.attach(layer.get_submodule(place))

    def _projection(self, target: str, layer: str, like: Tensor, seed: int) -> Projection:
        stem = f"{layer}{PLACES[target][0]}.adapter.projections.{target}."
        a, b = (next(e for e in self._mine if e.megatron[0] == stem + factor) for factor in "ab")
        zeros = torch.zeros(self._shapes[b.hf[0]])
        projection = Projection(_shard(self._start(a, seed), a).to(like), _shard(zeros, b).to(like))
        for factor, entry in ((projection.a, a), (projection.b, b)):
            if entry.split is not None:  # a gradient norm counts the parts of all ranks, and of whole factors one
                set_tensor_model_parallel_attributes(factor, True, entry.split, 1)
        return projection

    def _start(self, entry: ParameterMapping, seed: int) -> Tensor:
        """A whole A, uniform as torch's linear layers start; the same on every rank and under every layout."""
        name = entry.hf[0]
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
        rank, inputs = self._shapes[name]
        return (torch.rand(rank, inputs, generator=generator) * 2 - 1) / math.sqrt(inputs)


def check_targets(architecture: Architecture, lora: LoraSpec) -> None:
    """Raises LayoutError when a target has no adapter in this architecture."""
    if architecture.experts and (experts := sorted(set(lora.targets) - set(ATTENTION_TARGETS))):
        raise LayoutError(
            f"model.lora.targets {', '.join(experts)}: experts of a mixture have no adapters; use "
            f"{', '.join(ATTENTION_TARGETS)}"
        )


def adapter_mappings(architecture: Architecture, lora: LoraSpec, stages: int, chunks: int) -> list[ParameterMapping]:
    """The factors of all adapters, in the order of layers and targets."""
    mappings = []
    for layer in range(architecture.layers):
        below, owner = layer_place(layer, architecture.layers, stages, chunks)
        for target in (t for t in PLACES if t in lora.targets):
            place, block = PLACES[target]
            stem = f"{below}{place}.adapter.projections.{target}."
            name = f"model.layers.{layer}.{block}.{target}."
            column = place in FUSED
            mappings += [
                ParameterMapping((stem + "a",), (name + "lora_A.weight",), owner, split=None if column else 1),
                ParameterMapping((stem + "b",), (name + "lora_B.weight",), owner, split=0 if column else None),
            ]
    return mappings


def adapter_shapes(architecture: Architecture, lora: LoraSpec) -> dict[str, tuple[int, ...]]:
    """Shape of every factor by name."""
    weights = hf_shapes(architecture)
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in adapter_mappings(architecture, lora, 1, 1):
        stem, factor = entry.hf[0].removesuffix(".weight").rsplit(".", 1)
        outputs, inputs = weights[stem + ".weight"]
        shapes[entry.hf[0]] = (lora.rank, inputs) if factor == "lora_A" else (outputs, lora.rank)
    return shapes


def peft_config(lora: LoraSpec, base: str) -> dict[str, Any]:
    """`adapter_config.json` of an adapter of the model `base`."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": list(lora.targets),
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }


def _only(place: str) -> str:
    return next(target for target, (layer, _) in PLACES.items() if layer == place)


def _shard(tensor: Tensor, entry: ParameterMapping) -> Tensor:
    if entry.split is None:
        return tensor
    rank, size = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_tensor_model_parallel_world_size()
    shard: Tensor = tensor.chunk(size, dim=entry.split)[rank]
    return shard.clone()


def _with_gradient(module: Any, inputs: Any, output: Tensor) -> Tensor:
    """Recomputed layers have a gradient only if their input has one, and a frozen embedding gives none."""
    return output.requires_grad_() if torch.is_grad_enabled() else output
