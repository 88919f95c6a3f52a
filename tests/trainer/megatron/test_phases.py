"""What a step reports beside its loss: times of its parts, utilisation, a trace; and what overlaps where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.data_parallel import data_parallel_config
from swerl_trainer.megatron.device import Device, peak_flops
from swerl_trainer.megatron.metrics import METRICS, utilisation

if TYPE_CHECKING:
    from .conftest import MakeConfig, Start

CUDA = Device(cuda=True, transformer_engine=True, overlaps=True)


def test_times_of_a_steps_parts_and_its_utilisation(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config(kl_coef=0.1))
    step = trainer.train_step(batch)
    assert step.keys() <= METRICS.keys()
    parts = [step[f"{part}_seconds"] for part in ("logprob", "forward_backward", "optimizer")]
    assert min(parts) > 0
    assert sum(parts) <= step["seconds"]
    flops = 3 * trainer.shape.forward_flops(len(sequence) for sequence in batch.sequences)
    assert step["tflops_per_gpu"] == pytest.approx(flops / (parts[1] + parts[2]) / 1e12)
    assert "mfu" not in step, "a CPU has no known peak"


def test_mfu_is_the_share_of_the_peak_that_forward_backward_and_optimizer_reach(
    start: Start, make_config: MakeConfig
) -> None:
    start(make_config())  # one rank
    seconds = {"logprob_seconds": 50.0, "forward_backward_seconds": 6.0, "optimizer_seconds": 2.0}
    assert utilisation(3.2e15, seconds, 1e15) == pytest.approx({"tflops_per_gpu": 400.0, "mfu": 0.4})
    assert utilisation(3.2e15, seconds, None) == pytest.approx({"tflops_per_gpu": 400.0})
    assert utilisation(0.0, {"logprob_seconds": 50.0}, 1e15) == {}, "nothing was trained"


def test_forward_pass_counts_matrices_and_causal_attention(start: Start, make_config: MakeConfig) -> None:
    shape = start(make_config()).shape
    matrices = 2 * shape.active * 100
    attention = shape.layers * 4 * shape.heads * shape.head_size * 100 * 100 / 2
    assert shape.forward_flops([100]) == pytest.approx(matrices + attention)


def test_save_and_update_are_reported_with_the_next_step(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path
) -> None:
    trainer = start(make_config())
    trainer.save(str(tmp_path))
    assert trainer.train_step(batch)["save_seconds"] > 0
    assert "save_seconds" not in trainer.train_step(batch)


def test_load_is_reported_with_the_first_step_after_it(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path
) -> None:
    trainer = start(make_config())
    first = trainer.train_step(batch)
    assert first["load_seconds"] > 0, "the model was read"
    assert "load_seconds" not in trainer.train_step(batch)
    trainer.save(str(tmp_path))
    trainer.load(str(tmp_path))
    assert trainer.train_step(batch)["load_seconds"] > 0, "the checkpoint was read"


def test_switch_to_engines_and_back_is_a_part_of_its_own(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config())
    trainer.train_step(batch)
    trainer.release_memory()
    released = trainer.phases.take()
    assert released.keys() == {"switch_seconds"}
    assert trainer.train_step(batch)["switch_seconds"] > 0, "the next step took the memory back"
    buckets = trainer.sender.metadata(2**20)
    for number in range(len(buckets)):
        trainer.sender.export(number)
    trainer.sender.release()
    step = trainer.train_step(batch)
    assert step["switch_seconds"] > 0 and "update_seconds" not in step
    assert "switch_seconds" not in trainer.train_step(batch)


def test_most_memory_of_each_part_is_that_of_the_fullest_rank(
    start: Start, make_config: MakeConfig, batch: Batch
) -> None:
    phases = start(make_config()).phases
    phases.take()
    for phase, gib in (("load", 3.0), ("switch", 1.0), ("load", 2.0)):
        phases.add(phase, 0.5, gib)
    assert phases.take() == {"load_seconds": 1.0, "switch_seconds": 0.5, "load_gpu_gib": 3.0, "switch_gpu_gib": 1.0}
    assert phases.take() == {}


def test_trace_is_of_one_step(start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path) -> None:
    trainer = start(make_config())
    trainer.trace_next_step(str(tmp_path / "trace"))
    trainer.train_step(batch)
    with gzip.open(tmp_path / "trace" / "rank-0.json.gz") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert {"aten::mm", "aten::scaled_dot_product_attention"} <= names
    (tmp_path / "trace" / "rank-0.json.gz").unlink()
    trainer.train_step(batch)
    assert not any((tmp_path / "trace").iterdir())


def test_trace_that_cannot_be_written_stops_nothing(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    trainer = start(make_config())
    trainer.trace_next_step(str(tmp_path / "file"))
    assert trainer.train_step(batch)["new_updates"] == 1


@pytest.mark.parametrize("updates", [1, 4])
def test_communication_overlaps_on_gpus(updates: int) -> None:
    config = data_parallel_config(CUDA, updates_per_step=updates)
    assert config.overlap_grad_reduce
    assert config.overlap_param_gather is (updates > 1), "after the last update the weights are needed at once"
    assert not data_parallel_config(Device(cuda=False), updates_per_step=updates).overlap_grad_reduce


def test_experts_are_computed_by_one_grouped_product_on_gpus() -> None:
    assert CUDA.config(2)["moe_grouped_gemm"]
    assert "moe_grouped_gemm" not in Device(cuda=False).config(2), "it is a kernel of Transformer Engine"


@pytest.mark.parametrize(
    ("card", "peak"), [("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA A100-SXM4-80GB", 312e12), ("a card", None)]
)
def test_peak_of_a_card_is_that_of_its_data_sheet(card: str, peak: float | None) -> None:
    assert peak_flops(card) == peak
