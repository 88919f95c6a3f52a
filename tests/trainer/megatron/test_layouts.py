"""Two ranks in every layout train as one rank does, and a checkpoint moves between layouts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file
from swerl_trainer.algorithm import Batch, LossSettings
from swerl_trainer.megatron.environment import of_cpu_process
from swerl_trainer.megatron.settings import Layout

if TYPE_CHECKING:
    from .conftest import RunRanks, Settings, Start

LAYOUTS = {
    "tensor": Layout(tensor=2),
    "data": Layout(),
    "pipeline": Layout(pipeline=2),
    "context": Layout(context=2),
}
FIGURES = ("loss", "grad_norm", "logprob", "entropy", "mismatch_kl", "logprob_abs_diff_max", "ratio", "kl")


@pytest.mark.timeout(900)
def test_every_layout_trains_as_one_rank(run_ranks: RunRanks, settings: Settings, start: Start, batch: Batch) -> None:
    """GSPO with every optional term: sequence sums and entropies must cross ranks correctly."""
    loss = LossSettings(objective="gspo", kl_coef=0.05, entropy_coef=0.01)
    alone = start(settings(tied=True, loss=loss))
    before = alone.log_probs(batch)
    expected = [alone.train_step(batch) for _ in range(3)]
    after = alone.log_probs(batch)
    cases = {name: settings(tied=True, loss=loss, layout=layout) for name, layout in LAYOUTS.items()}
    report = run_ranks(2, cases, batch)
    for name in LAYOUTS:
        for mine, theirs in zip(report[name]["before"] + report[name]["after"], before + after, strict=True):
            assert (mine - theirs).abs().max() < 5e-5, name
        for step, figures in zip(report[name]["steps"], expected, strict=True):
            assert {f: step[f] for f in FIGURES} == pytest.approx({f: figures[f] for f in FIGURES}, rel=2e-4), name
    checkpoints_move_between_layouts(report["data"]["folder"], settings, start, batch, loss, expected[2])
    exports_agree([report[name]["folder"] / "hf" for name in LAYOUTS])
    for name in ("tensor", "pipeline"):
        a_checkpoint_alone_gives_the_weights(report[name]["folder"], cases[name].model)


def checkpoints_move_between_layouts(
    folder: Path, settings: Settings, start: Start, batch: Batch, loss: LossSettings, expected: dict[str, float]
) -> None:
    """A checkpoint of two data-parallel ranks continues on one."""
    alone = start(replace(settings(tied=True, loss=loss), seed=99))
    alone.load(str(folder / "checkpoint"))
    step = alone.train_step(batch)
    assert {f: step[f] for f in FIGURES} == pytest.approx({f: expected[f] for f in FIGURES}, rel=2e-4)


def a_checkpoint_alone_gives_the_weights(folder: Path, model: str) -> None:
    """What a process of its own exports from a checkpoint is what the ranks held, bit for bit."""
    command = [sys.executable, "-W", "ignore", "-m", "swerl_trainer.megatron.export", str(folder / "checkpoint"), model]
    environ = {**of_cpu_process(), "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(folder / "again"), "--dtype", "float32"], env=environ, check=True, timeout=300)
    ranks, alone = (load_file(folder / name / "model-00001.safetensors") for name in ("hf", "again"))
    assert alone.keys() == ranks.keys() and all(torch.equal(alone[name], ranks[name]) for name in ranks)
    assert (folder / "again" / "config.json").read_text() == (folder / "hf" / "config.json").read_text()


def exports_agree(folders: list[Path]) -> None:
    """The weights of all layouts after two steps, in Hugging Face names."""
    first, *others = (load_file(folder / "model-00001.safetensors") for folder in folders)
    for other in others:
        assert other.keys() == first.keys()
        assert all(torch.allclose(other[name], first[name], atol=2e-5) for name in first)
