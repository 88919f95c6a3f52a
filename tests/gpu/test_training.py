"""A training step on the GPU is the step on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.device import Device

from tests.gpu.conftest import CPU, KERNELS, TORCH_KERNELS, name_of

if TYPE_CHECKING:
    from tests.gpu.conftest import RunRank
    from tests.trainer.megatron.conftest import MakeConfig

FIGURES = ("loss", "grad_norm", "entropy", "mismatch_kl", "logprob")
on_each_kernel = pytest.mark.parametrize("kernels", KERNELS, ids=name_of)


def distances(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> torch.Tensor:
    """|difference| of the log-probability of each trained token."""
    actual_logprobs, expected_logprobs = torch.cat(list(actual)), torch.cat(list(expected))
    return (actual_logprobs - expected_logprobs).abs()[expected_logprobs != 0]


@pytest.mark.parametrize("tied", [False, True])
def test_float32_step_on_cuda_is_the_step_on_the_cpu(
    run_rank: RunRank, make_config: MakeConfig, batch: Batch, tied: bool
) -> None:
    config = make_config(tied=tied)
    on_gpu, on_cpu = (run_rank(config, batch, device, steps=2) for device in (TORCH_KERNELS, CPU))
    assert distances(on_gpu["before"], on_cpu["before"]).max() < 2e-5
    assert distances(on_gpu["after"], on_cpu["after"]).max() < 2e-3  # Adam divides tiny gradients by their own size
    for actual, expected in zip(on_gpu["steps"], on_cpu["steps"], strict=True):
        for figure in FIGURES:
            assert actual[figure] == pytest.approx(expected[figure], rel=1e-3, abs=1e-5), figure


@on_each_kernel
def test_bfloat16_step_on_cuda_is_near_the_float32_step_on_the_cpu(
    run_rank: RunRank, make_config: MakeConfig, batch: Batch, kernels: Device
) -> None:
    exact = make_config()
    on_gpu, on_cpu = run_rank(replace(exact, dtype="bfloat16"), batch, kernels), run_rank(exact, batch, CPU)
    gaps = distances(on_gpu["before"], on_cpu["before"])
    assert gaps.mean() < 0.02
    assert gaps.max() < 0.15
    actual, expected = on_gpu["steps"][0], on_cpu["steps"][0]
    assert actual["loss"] == pytest.approx(expected["loss"], abs=0.02)
    assert actual["grad_norm"] == pytest.approx(expected["grad_norm"], rel=0.1)


@on_each_kernel
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputing_activations_changes_no_gradient(
    run_rank: RunRank, make_config: MakeConfig, batch: Batch, kernels: Device, recompute: Any
) -> None:
    expected = run_rank(make_config(dtype="bfloat16"), batch, kernels)["steps"][0]
    recomputed = run_rank(make_config(dtype="bfloat16", recompute=recompute), batch, kernels)["steps"][0]
    assert recomputed["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-2)


@on_each_kernel
def test_packing_changes_no_loss(run_rank: RunRank, make_config: MakeConfig, batch: Batch, kernels: Device) -> None:
    packed = run_rank(make_config(dtype="bfloat16", max_tokens_per_gpu=10_000), batch, kernels)
    alone = run_rank(make_config(dtype="bfloat16", max_tokens_per_gpu=1), batch, kernels)
    assert (packed["steps"][0]["micro_batches"], alone["steps"][0]["micro_batches"]) == (1, len(batch))
    assert distances(packed["before"], alone["before"]).mean() < 0.01
    assert packed["steps"][0]["grad_norm"] == pytest.approx(alone["steps"][0]["grad_norm"], rel=2e-2)


@pytest.mark.parametrize(
    ("kernels", "offload"),
    [(kernels, offload) for kernels in KERNELS for offload in (False, True)],
    ids=lambda value: name_of(value) if isinstance(value, Device) else f"offload-{value}",
)
def test_resumed_run_is_the_unbroken_run(
    run_rank: RunRank, make_config: MakeConfig, batch: Batch, tmp_path: Path, kernels: Device, offload: bool
) -> None:
    config = make_config(dtype="bfloat16", max_grad_norm=1.0, offload=offload)
    unbroken = run_rank(config, batch, kernels, steps=4)
    run_rank(config, batch, kernels, steps=2, save=tmp_path / "checkpoint")
    resumed = run_rank(config, batch, kernels, steps=2, load=tmp_path / "checkpoint")
    for expected, again in zip(unbroken["steps"][2:], resumed["steps"], strict=True):
        assert again["updates"] == expected["updates"]
        assert again["loss"] == pytest.approx(expected["loss"], abs=5e-3)
        assert again["logprob"] == pytest.approx(expected["logprob"], abs=2e-2)
