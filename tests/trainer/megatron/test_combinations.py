"""Axes of parallelism together train as one rank does. docs/layouts.md lists the combinations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.device import Device

from .families import GLM, make_model

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

FIGURES = ("loss", "grad_norm", "logprob", "entropy", "mismatch_kl", "logprob_abs_diff_max")
TERMS: dict[str, Any] = {"name": "gspo", "kl_coef": 0.05, "entropy_coef": 0.01, "max_tokens_per_gpu": 80}
TENSOR, PIPELINE, CONTEXT = {"tensor_parallel": 2}, {"pipeline_parallel": 2}, {"context_parallel": 2}
INTERLEAVED = PIPELINE | {"virtual_pipeline": 2}  # on models with more layers
# As on GPUs: gradients travel during the backward pass, weights during the next update's forward pass.
DEVICES = dict.fromkeys(["overlapped", "interleaved-overlapped"], Device(cuda=False, overlaps=True))
DENSE: dict[int, dict[str, dict[str, int]]] = {
    4: {
        "tensor-pipeline": TENSOR | PIPELINE,
        "tensor-context": TENSOR | CONTEXT,
        "pipeline-context": PIPELINE | CONTEXT,
        "overlapped": {"minibatches": 2},
        "tensor-interleaved": TENSOR | INTERLEAVED,
        "interleaved-overlapped": INTERLEAVED | {"minibatches": 2},
        "context-data": CONTEXT,
        "interleaved-context": INTERLEAVED | CONTEXT,
    },
    8: {
        "tensor-pipeline-context": TENSOR | PIPELINE | CONTEXT,
        "tensor-pipeline-data": TENSOR | PIPELINE,
        "four-interleaved-data": {"pipeline_parallel": 4, "virtual_pipeline": 2},
        "interleaved-context-data": INTERLEAVED | CONTEXT,
    },
}
MIXTURE: dict[int, dict[str, dict[str, int]]] = {
    4: {
        "tensor-pipeline-experts": TENSOR | PIPELINE | {"expert_parallel": 2},
        "tensor-context-experts": TENSOR | CONTEXT | {"expert_parallel": 4},
        "tensor-interleaved-experts": TENSOR | INTERLEAVED | {"expert_parallel": 2},
        "experts-data": {"expert_parallel": 2},
        "context-experts-data": CONTEXT | {"expert_parallel": 2},
    },
    8: {
        "all": TENSOR | PIPELINE | CONTEXT | {"expert_parallel": 2},
        "pipeline-context-experts-data": PIPELINE | CONTEXT | {"expert_parallel": 2},
    },
}
# The first layer of the mixture has no experts: with two layers on two stages the first one has one sender.
SENDERS = {
    "tensor-pipeline-experts": 3,
    "tensor-context-experts": 4,
    "tensor-interleaved-experts": 4,
    "experts-data": 2,
    "context-experts-data": 2,
    "all": 3,
    "pipeline-context-experts-data": 3,
}


def steps_of(trainer: Any, batch: Batch) -> dict[str, Any]:
    before = trainer.log_probs(batch)
    steps = [trainer.train_step(batch) for _ in range(3)]
    return {"before": before, "steps": steps, "after": trainer.log_probs(batch)}


def agree(name: str, found: dict[str, Any], alone: dict[str, Any]) -> None:
    """Log-probabilities within 5e-5, every figure of three steps within 2e-4 of its value."""
    for when in ("before", "after"):
        for mine, theirs in zip(found[when], alone[when], strict=True):
            assert (mine - theirs).abs().max() < 5e-5, (name, when)
    for step, figures in zip(found["steps"], alone["steps"], strict=True):
        assert {f: step[f] for f in FIGURES} == pytest.approx({f: figures[f] for f in FIGURES}, rel=2e-4), name


def make_mixtures(folder: Path) -> dict[str, Path]:
    """Mixtures of two and of four layers."""
    found = {"tied": folder / "mixture", "deep": folder / "deep-mixture"}
    make_model(found["tied"], **GLM)
    make_model(found["deep"], **GLM, num_hidden_layers=4)
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("kind", ["dense", "mixture"])
def test_combined_axes_train_as_one_rank(
    run_ranks: RunRanks,
    make_config: MakeConfig,
    start: Start,
    batch: Batch,
    models: dict[str, Path],
    tmp_path: Path,
    kind: str,
    ranks: int,
) -> None:
    folders, layouts = (models, DENSE) if kind == "dense" else (make_mixtures(tmp_path), MIXTURE)
    cases = {
        name: make_config(model=str(folders["deep" if "virtual_pipeline" in layout else "tied"]), **TERMS, **layout)
        for name, layout in layouts[ranks].items()
    }
    report = run_ranks(ranks, cases, batch, only_steps=True, devices=DEVICES)
    assert report.keys() == cases.keys()
    for name, config in cases.items():
        senders = SENDERS.get(name, config.trainer.pipeline_parallel)
        assert len(report[name]["senders"]) == senders, name
    alone: dict[tuple[str, int], dict[str, Any]] = {}
    for name, config in cases.items():
        updates = config.algorithm.minibatches
        if (config.model, updates) not in alone:
            one_rank = make_config(model=config.model, **TERMS, minibatches=updates)
            alone[config.model, updates] = steps_of(start(one_rank), batch)
        agree(name, report[name], alone[config.model, updates])
