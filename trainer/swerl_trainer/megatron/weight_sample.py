"""The trainer's side of the comparison after an update: sums of some weights, or of adapters, as engines hold them.

Guarantees: each is a collective of all ranks; a rank gathers what its stage's ranks share, and sums experts of its own
one at a time, so no rank holds those of another.
"""

from __future__ import annotations

from collections import ChainMap
from itertools import groupby

import torch
from swerl_trainer.megatron.architecture import Architecture
from swerl_trainer.megatron.engine_layout import (
    adapter_names,
    adapter_sums,
    engine_sums,
    other_than_adapters,
    others,
    sample_names,
)
from swerl_trainer.megatron.lora import Adapters
from swerl_trainer.megatron.model import gather_shards, tensors_of
from swerl_trainer.megatron.process_group import of_all_ranks, stage
from swerl_trainer.megatron.weight_part import expert_names, helped_names, in_first_replica, leads, part_weights
from swerl_trainer.weight_bucket import WeightSample
from torch import Tensor, nn

EngineSums = tuple[dict[str, str], ...]  # on each rank of an engine, by parameter


def weight_sample(
    model: nn.ModuleList,
    architecture: Architecture,
    adapters: Adapters | None,
    version: int,
    engine_ranks: int,
    expert_ranks: int,
) -> WeightSample:
    """Sums of the weights that are compared after the update to `version`, adapters merged."""
    names = sample_names(architecture, version)
    wanted = set(names)
    shared = [name for name in helped_names(architecture) if name in wanted]
    tensors = dict(part_weights(model, architecture, shared, adapters))
    found = [engine_sums(tensors if leads() else {}, architecture, engine_ranks)]
    own = [name for name in expert_names(architecture) if name in wanted]
    for _, expert in groupby(part_weights(model, architecture, own, adapters), _expert_of):
        found.append(engine_sums(dict(expert), architecture, engine_ranks, expert_ranks))
    return WeightSample(others(architecture, names), _of_all_ranks(_merged(found)))


def _expert_of(named: tuple[str, Tensor]) -> str:
    """The part of a weight's name that its expert's weights share."""
    return named[0].rsplit(".", 2)[0]


@torch.no_grad()
def adapter_sample(
    model: nn.ModuleList, architecture: Architecture, adapters: Adapters, version: int, engine_ranks: int
) -> WeightSample:
    """Sums of the factors that are compared after the update to `version`."""
    names = set(adapter_names(adapters.shapes(), architecture, version))
    mine = [entry for entry in adapters.mappings() if entry.stage == stage() and entry.hf[0] in names]
    parameters = tensors_of(model)
    gathered = (gather_shards(parameters, entry, architecture) for entry in (mine if in_first_replica() else []))
    factors = {name: factor for whole in gathered for name, factor in whole}
    sums = adapter_sums(factors if leads() else {}, architecture, engine_ranks)
    return WeightSample(other_than_adapters(architecture, version), _of_all_ranks(sums))


def _merged(found: list[EngineSums]) -> EngineSums:
    return tuple(dict(ChainMap(*each)) for each in zip(*found, strict=True))


def _of_all_ranks(sums: EngineSums) -> EngineSums:
    return _merged(of_all_ranks(sums))
