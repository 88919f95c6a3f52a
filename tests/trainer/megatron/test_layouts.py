"""Two ranks in every layout train as one rank does, and a checkpoint moves between layouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.environment import cpu_process_environment

from .families import read_folder

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

LAYOUTS = {
    "tensor": {"tensor_parallel": 2},
    "data": {},
    "pipeline": {"pipeline_parallel": 2},
    "interleaved": {"pipeline_parallel": 2, "virtual_pipeline": 2},
    "context": {"context_parallel": 2},
}
# Ranks that send a part of the weights.
SENDERS = {"tensor": [0], "data": [0], "pipeline": [0, 1], "interleaved": [0, 1], "context": [0]}
FIGURES = ("loss", "grad_norm", "logprob", "entropy", "mismatch_kl", "logprob_abs_diff_max", "ratio", "kl")


@pytest.mark.timeout(900)
def test_every_layout_trains_as_one_rank(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch, models: dict[str, Path], tmp_path: Path
) -> None:
    """GSPO with every optional term: sequence sums and entropies must cross ranks correctly."""
    fields: dict[str, Any] = {"model": str(models["deep"]), "name": "gspo", "kl_coef": 0.05, "entropy_coef": 0.01}
    one_rank = start(make_config(**fields))
    logprobs_before = one_rank.log_probs(batch)
    expected = [one_rank.train_step(batch) for _ in range(2)]
    one_rank.save(str(tmp_path / "alone"))
    one_rank.save_hf(str(tmp_path / "alone-hf"))
    expected.append(one_rank.train_step(batch))
    logprobs_after = one_rank.log_probs(batch)
    cases = {name: make_config(**fields, **layout) for name, layout in LAYOUTS.items()}
    report = run_ranks(2, cases, batch, checkpoint=str(tmp_path / "alone"))
    assert {name: report[name]["senders"] for name in LAYOUTS} == SENDERS
    for name in LAYOUTS:
        for actual, full_model in zip(
            report[name]["before"] + report[name]["after"], logprobs_before + logprobs_after, strict=True
        ):
            assert (actual - full_model).abs().max() < 5e-5, name
        for step, figures in zip(report[name]["steps"], expected, strict=True):
            same_step(step, figures)
        same_step(report[name]["resumed"], expected[2])
    one_rank = start(make_config(**fields, seed=99))
    for name in ("data", "interleaved"):
        checkpoints_move_between_layouts(report[name]["folder"], one_rank, batch, expected[2], tmp_path / "alone-hf")
    exports_agree([report[name]["folder"] / "hf" for name in LAYOUTS])
    for name in ("tensor", "pipeline", "interleaved"):
        a_checkpoint_alone_gives_the_weights(report[name]["folder"], cases[name].model)


def same_step(step: dict[str, float], expected: dict[str, float]) -> None:
    assert {f: step[f] for f in FIGURES} == pytest.approx({f: expected[f] for f in FIGURES}, rel=2e-4)


def checkpoints_move_between_layouts(
    folder: Path, one_rank: Any, batch: Batch, expected: dict[str, float], original: Path
) -> None:
    """A checkpoint of two ranks continues on one; one that two ranks only loaded and saved again is the same."""
    one_rank.load(str(folder / "checkpoint"))
    same_step(one_rank.train_step(batch), expected)
    one_rank.load(str(folder / "copy"))
    one_rank.save_hf(str(folder / "copy-hf"))
    copied, saved = (read_folder(path) for path in (folder / "copy-hf", original))
    assert copied.keys() == saved.keys() and all(torch.equal(copied[name], saved[name]) for name in saved)


def a_checkpoint_alone_gives_the_weights(folder: Path, model: str) -> None:
    """What a process of its own exports from a checkpoint is what the ranks held, bit for bit."""
    command = [sys.executable, "-W", "ignore", "-m", "swerl_trainer.megatron.export", str(folder / "checkpoint"), model]
    environ = {**cpu_process_environment(), "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(folder / "again"), "--dtype", "float32"], env=environ, check=True, timeout=300)
    ranks, exported = (read_folder(folder / name) for name in ("hf", "again"))
    assert exported.keys() == ranks.keys() and all(torch.equal(exported[name], ranks[name]) for name in ranks)
    assert (folder / "again" / "config.json").read_text() == (folder / "hf" / "config.json").read_text()


def exports_agree(folders: list[Path]) -> None:
    """The weights of all layouts after two steps, in Hugging Face names. Adam's first steps follow a gradient's sign,
    which rounding decides where it is almost 0: one element in a thousand may differ by a step."""
    first, *others = (read_folder(folder) for folder in folders)
    for folder, other in zip(folders[1:], others, strict=True):
        assert other.keys() == first.keys()
        for name in first:
            apart = ((other[name] - first[name]).abs() > 2e-5).float().mean()
            assert apart < 1e-3, (folder, name, apart)
