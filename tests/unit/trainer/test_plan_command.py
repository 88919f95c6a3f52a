"""`python -m swerl_trainer.plan` prints the plan of a job and says whether it fits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from swerl_trainer.plan import main

ROOT = Path(__file__).parents[3]
QWEN3_600M = {
    "model_type": "qwen3",
    "num_hidden_layers": 28,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "tie_word_embeddings": True,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
}
EXAMPLE = str(ROOT / "examples/swerljob-1x8-4b.yaml")


def test_fitting_job_ends_with_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([EXAMPLE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model    4.0 B parameters") and lines[-1] == "fits"
    named = {line.split()[0] for line in lines}
    assert named >= {"ranks", "TP", "load", "step", "save", "update", "engines", "traffic"}


def test_refused_job_ends_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([EXAMPLE, "--gpu-memory", "12"]) == 1
    assert "refused  a rank needs" in capsys.readouterr().out


def test_model_folder_takes_the_place_of_the_known_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 6, "hidden_size": 256, "num_attention_heads": 6}
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 512, "vocab_size": 1024}))
    assert main([EXAMPLE, "--model", str(tmp_path)]) == 1
    assert "attention heads 6 cannot be divided over tensorParallel 4" in capsys.readouterr().out


def test_what_cannot_be_read_is_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, invalid = tmp_path / "empty.yaml", tmp_path / "wrong.yaml"
    empty.write_text("kind: Pod\n")
    invalid.write_text("kind: SweRLJob\nspec: {model: 3}\n")
    assert [main([str(empty)]), main([str(invalid)]), main([str(ROOT / "swerljob.yaml")])] == [2, 2, 2]
    errors = capsys.readouterr().err
    assert "has no SweRLJob" in errors and "spec.model" in errors and "--model" in errors


def test_evaluation_has_the_plan_of_its_engines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout_only, endpoint = (str(ROOT / f"examples/sweeval{name}.yaml") for name in ("-rollout-only", ""))
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_600M))
    model = ["--model", str(tmp_path)]
    assert main([rollout_only, *model]) == 0
    first, engines, last = capsys.readouterr().out.splitlines()
    assert first.startswith("model    0.6 B parameters") and last == "fits"
    assert engines.startswith("engines  1 of 1 GPUs, each GPU with 1.1 GiB of weights, a cache of ")
    assert main([rollout_only, *model, "--gpu-memory", "2"]) == 1
    assert "refused  an engine of 1 GPU(s) has 0.85 of 2.0 GiB" in capsys.readouterr().out
    assert [main([rollout_only]), main([endpoint, *model])] == [2, 2]
    errors = capsys.readouterr().err
    assert "--model" in errors and "model.endpoint has them" in errors


def test_command_needs_no_torch() -> None:
    program = "import sys, swerl_trainer.plan; print([m for m in ('torch', 'ray', 'megatron') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"
