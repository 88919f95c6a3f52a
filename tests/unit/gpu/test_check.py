"""`make gpu-check` says first whether it can check anything, and what the benchmark counts is what a step costs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import bench, check
from tests.gpu.check import NoDevice
from tests.gpu.shapes import QWEN3_0_6B, QWEN3_4B


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run; nothing is."""
    found: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        found.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_missing_device_is_reported_before_installation(
    monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> int:
        raise NoDevice("the driver shows none")

    monkeypatch.setattr(check, "cuda_devices", none)
    monkeypatch.setattr(check, "environment", lambda: pytest.fail("something was installed"))
    assert check.main([]) == 2
    assert "no CUDA device: the driver shows none" in capsys.readouterr().err
    assert not commands


def test_ready_interpreter_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    monkeypatch.setattr(check, "cuda_devices", lambda: 1)
    assert check.main(["--python", "/opt/python"]) == 0
    assert [command[:3] for command in commands] == [
        ["/opt/python", "-m", "pytest"],
        ["/opt/python", "-m", "tests.gpu.bench"],
    ]


def test_one_part_can_be_chosen(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    monkeypatch.setattr(check, "cuda_devices", lambda: 1)
    assert check.main(["--python", "p", "--only", "bench", "--", "training"]) == 0
    assert commands == [["p", "-m", "tests.gpu.bench", "training"]]


def test_shapes_have_the_size_they_are_named_for() -> None:
    assert QWEN3_0_6B.parameters == pytest.approx(0.6e9, rel=0.01)
    assert QWEN3_4B.parameters == pytest.approx(4.02e9, rel=0.01)


def test_token_costs_six_operations_per_weight_and_its_attention() -> None:
    assert QWEN3_0_6B.training_flops(0) == 6 * QWEN3_0_6B.parameters
    attention = QWEN3_0_6B.training_flops(4096) - QWEN3_0_6B.training_flops(0)
    scores_and_values = 2 * 2 * 16 * 128 * 4096 / 2  # half of the matrix, both products, per layer
    assert attention == 3 * 28 * scores_and_values


def test_step_at_16k_fills_its_micro_batches_in_every_variant() -> None:
    assert {case.variant for case in bench.VARIANTS} == {"compiled", "fused_adamw", "without_overlap"}
    for case in (bench.AT_16K, *bench.VARIANTS):
        assert (case.shape, case.packed) == (QWEN3_4B, 16_384)
        assert sum(case.lengths) == bench.MICRO_BATCHES * 16_384
        assert 16_384 % case.lengths[0] == 0
    assert bench.AT_16K.name == "train_4b_16k"
    assert bench.TrainingCase(QWEN3_0_6B, 8192, "full").name == "train_0.6b_8k_recompute_full"


def test_goal_at_16k_follows_from_the_cards_peak() -> None:
    rate = bench.MFU_GOAL * bench.PEAK_TFLOPS * 1e12 / QWEN3_4B.training_flops(bench.SEQUENCE)
    assert bench.AT_16K.mfu(rate) == pytest.approx(0.40)


def test_case_that_fails_is_short_and_costs_no_other_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> float:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(bench, "_isolated", fail)
    figures = list(bench.mfu(tmp_path))
    assert len(figures) == len(bench.VARIANTS) + 2
    assert not any(figure.meets_goal for figure in figures)
