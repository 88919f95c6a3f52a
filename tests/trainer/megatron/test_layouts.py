"""Two ranks in every layout train as one rank does, and a checkpoint moves between layouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.environment import cpu_process_environment

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

LAYOUTS = {
    "tensor": {"tensor_parallel": 2},
    "data": {},
    "pipeline": {"pipeline_parallel": 2},
    "context": {"context_parallel": 2},
}
SENDERS = {"tensor": [0], "data": [0], "pipeline": [0, 1], "context": [0]}  # ranks that send a part of the weights
FIGURES = ("loss", "grad_norm", "logprob", "entropy", "mismatch_kl", "logprob_abs_diff_max", "ratio", "kl")


@pytest.mark.timeout(900)
def test_every_layout_trains_as_one_rank(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch
) -> None:
    """GSPO with every optional term: sequence sums and entropies must cross ranks correctly."""
    loss: dict[str, Any] = {"name": "gspo", "kl_coef": 0.05, "entropy_coef": 0.01}
    one_rank = start(make_config(tied=True, **loss))
    logprobs_before = one_rank.log_probs(batch)
    expected = [one_rank.train_step(batch) for _ in range(3)]
    logprobs_after = one_rank.log_probs(batch)
    cases = {name: make_config(tied=True, **loss, **layout) for name, layout in LAYOUTS.items()}
    report = run_ranks(2, cases, batch)
    assert {name: report[name]["senders"] for name in LAYOUTS} == SENDERS
    for name in LAYOUTS:
        for actual, full_model in zip(
            report[name]["before"] + report[name]["after"], logprobs_before + logprobs_after, strict=True
        ):
            assert (actual - full_model).abs().max() < 5e-5, name
        for step, figures in zip(report[name]["steps"], expected, strict=True):
            assert {f: step[f] for f in FIGURES} == pytest.approx({f: figures[f] for f in FIGURES}, rel=2e-4), name
    checkpoints_move_between_layouts(report["data"]["folder"], make_config, start, batch, loss, expected[2])
    exports_agree([report[name]["folder"] / "hf" for name in LAYOUTS])
    for name in ("tensor", "pipeline"):
        a_checkpoint_alone_gives_the_weights(report[name]["folder"], cases[name].model)


def checkpoints_move_between_layouts(
    folder: Path, make_config: MakeConfig, start: Start, batch: Batch, loss: dict[str, Any], expected: dict[str, float]
) -> None:
    """A checkpoint of two data-parallel ranks continues on one."""
    one_rank = start(make_config(tied=True, **loss, seed=99))
    one_rank.load(str(folder / "checkpoint"))
    step = one_rank.train_step(batch)
    assert {f: step[f] for f in FIGURES} == pytest.approx({f: expected[f] for f in FIGURES}, rel=2e-4)


def a_checkpoint_alone_gives_the_weights(folder: Path, model: str) -> None:
    """What a process of its own exports from a checkpoint is what the ranks held, bit for bit."""
    command = [sys.executable, "-W", "ignore", "-m", "swerl_trainer.megatron.export", str(folder / "checkpoint"), model]
    environ = {**cpu_process_environment(), "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(folder / "again"), "--dtype", "float32"], env=environ, check=True, timeout=300)
    ranks, exported = (load_file(folder / name / "model-00001.safetensors") for name in ("hf", "again"))
    assert exported.keys() == ranks.keys() and all(torch.equal(exported[name], ranks[name]) for name in ranks)
    assert (folder / "again" / "config.json").read_text() == (folder / "hf" / "config.json").read_text()


def exports_agree(folders: list[Path]) -> None:
    """The weights of all layouts after two steps, in Hugging Face names."""
    first, *others = (load_file(folder / "model-00001.safetensors") for folder in folders)
    for other in others:
        assert other.keys() == first.keys()
        assert all(torch.allclose(other[name], first[name], atol=2e-5) for name in first)
