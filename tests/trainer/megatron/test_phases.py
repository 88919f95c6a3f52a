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
from swerl_trainer.megatron.metrics import METRICS

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
