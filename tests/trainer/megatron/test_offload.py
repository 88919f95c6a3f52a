"""The optimizer on the host trains as the one beside the weights does, saves what it saves, and loads what it saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from megatron.core.optimizer.cpu_offloading import HybridDeviceOptimizer
from swerl_api import LoraSpec
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.device import Device
from swerl_trainer.megatron.errors import TrainerError
from swerl_trainer.megatron.optimizer import build_optimizer
from swerl_trainer.megatron.trainer import MegatronTrainer
from torch import Tensor

from .checkpoint_states import optimizer_states

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

SEPARATE = Device(cuda=False, own_memory=True)  # as on GPUs: the host is other memory, so state can move there
BF16: dict[str, Any] = {"dtype": "bfloat16", "weight_decay": 0.1}
FIGURES = ("loss", "grad_norm", "logprob", "entropy")


def host_optimizer(trainer: MegatronTrainer) -> HybridDeviceOptimizer:
    (member,) = trainer.optimizer.chained_optimizers
    assert isinstance(member.optimizer, HybridDeviceOptimizer)
    return member.optimizer


def figures_of(steps: list[dict[str, float]]) -> list[list[float]]:
    return [[step[figure] for figure in FIGURES] for step in steps]


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Between two checkpoints' states of the optimizer, relative to the largest value of each tensor."""
    assert one.keys() == other.keys() and len(one) > 6
    return max(float((one[name] - other[name]).abs().max() / one[name].abs().max()) for name in one)


def test_weights_and_state_are_those_of_training_without_offload(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path
) -> None:
    found = {}
    for offload in (False, True):
        trainer = start(make_config(**BF16, offload=offload), SEPARATE)
        steps = [trainer.train_step(batch) for _ in range(4)]
        trainer.save(str(tmp_path / str(offload)))
        found[offload] = figures_of(steps), optimizer_states(tmp_path / str(offload))
    assert found[True][0] == [pytest.approx(step, rel=1e-3, abs=1e-5) for step in found[False][0]]
    assert largest_difference(found[False][1], found[True][1]) < 1e-3

    hybrid = host_optimizer(trainer)
    weights = {parameter.data_ptr() for group in hybrid.param_groups for parameter in group["params"]}
    state = [tensor for each in hybrid.sub_optimizers for values in each.state.values() for tensor in values.values()]
    assert len(state) == 4 * len(weights) == 4 * len(hybrid.sub_optimizers)  # step, two moments, fp32 weights
    assert not weights & {tensor.data_ptr() for tensor in state}


@pytest.mark.parametrize("lora", [None, LoraSpec(rank=4)], ids=["full", "adapters"])
def test_resumed_run_is_the_unbroken_run(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path, lora: LoraSpec | None
) -> None:
    config = make_config(**BF16, offload=True, lora=lora)
    trainer = start(config, SEPARATE)
    for _ in range(2):
        trainer.train_step(batch)
    trainer.save(str(tmp_path / "checkpoint"))
    unbroken = [trainer.train_step(batch) for _ in range(3)]
    resumed = start(config, SEPARATE)
    resumed.load(str(tmp_path / "checkpoint"))
    assert figures_of([resumed.train_step(batch) for _ in range(3)]) == figures_of(unbroken)
    resumed.load(str(tmp_path / "checkpoint"))  # into state that is there already
    assert figures_of([resumed.train_step(batch) for _ in range(3)]) == figures_of(unbroken)


@pytest.mark.parametrize("offload", [False, True])
def test_checkpoint_moves_to_a_run_with_the_other_setting(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path, offload: bool
) -> None:
    trainer = start(make_config(**BF16, offload=offload), SEPARATE)
    for _ in range(2):
        trainer.train_step(batch)
    trainer.save(str(tmp_path / "checkpoint"))
    unbroken = [trainer.train_step(batch) for _ in range(3)]
    resumed = start(make_config(**BF16, offload=not offload), SEPARATE)
    resumed.load(str(tmp_path / "checkpoint"))
    resumed.save(str(tmp_path / "copy"))
    states, moved = optimizer_states(tmp_path / "checkpoint"), optimizer_states(tmp_path / "copy")
    assert states.keys() == moved.keys()
    assert all(torch.equal(states[name], moved[name]) for name in states)
    steps = [resumed.train_step(batch) for _ in range(3)]
    assert [step["updates"] for step in steps] == [3, 4, 5]
    assert figures_of(steps) == [pytest.approx(step, rel=1e-3, abs=1e-5) for step in figures_of(unbroken)]


def test_checkpoint_before_the_first_update_is_the_model(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path
) -> None:
    config = make_config(**BF16, offload=True)
    trainer = start(config, SEPARATE)
    trainer.save(str(tmp_path / "checkpoint"))
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    unbroken = [trainer.train_step(batch) for _ in range(2)]
    resumed = start(config, SEPARATE)
    resumed.load(str(tmp_path / "checkpoint"))
    assert all(map(torch.equal, before, resumed.model.parameters()))
    assert figures_of([resumed.train_step(batch) for _ in range(2)]) == figures_of(unbroken)


def test_float32_is_refused_by_name(make_config: MakeConfig) -> None:
    with pytest.raises(TrainerError, match=r"trainer\.offload needs model\.dtype bfloat16, not float32"):
        build_optimizer([], make_config(offload=True), SEPARATE)


@pytest.mark.timeout(900)
def test_ranks_that_share_the_optimizer_keep_their_parts_on_the_host(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch, tmp_path: Path
) -> None:
    """Tensor x data: four ranks continue what one rank without offload saved; gradients travel in the backward pass."""
    alone = start(make_config(**BF16), SEPARATE)
    for _ in range(2):
        alone.train_step(batch)
    alone.save(str(tmp_path / "alone"))
    cases = {name: make_config(**BF16, tensor_parallel=2, offload=name == "host") for name in ("device", "host")}
    devices = dict.fromkeys(cases, Device(cuda=False, own_memory=True, overlaps=True))
    report = run_ranks(4, cases, batch, devices=devices, checkpoint=str(tmp_path / "alone"))
    host, device = report["host"], report["device"]
    assert figures_of(host["steps"]) == [pytest.approx(s, rel=1e-3, abs=1e-5) for s in figures_of(device["steps"])]
    assert figures_of([host["again"]]) == figures_of(host["steps"][2:])
    assert figures_of([host["resumed"]]) == [pytest.approx(figures_of([device["resumed"]])[0], rel=1e-3, abs=1e-5)]
    states, moved = optimizer_states(tmp_path / "alone"), optimizer_states(host["folder"] / "copy")
    assert states.keys() == moved.keys()
    assert all(torch.equal(states[name], moved[name]) for name in states)
