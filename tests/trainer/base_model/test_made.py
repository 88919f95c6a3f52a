"""The demo's base model: that what lies in the repository copies, and that the programs which make it run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from tiny_model.network import Shape, TinyQwen3
from tiny_model.pretrain import MIN_COPY_PROBABILITY
from tiny_model.validation import measure

SHIPPED = Path(__file__).parents[3] / "tiny_model" / "model"
SHORT = 1000  # tokens: one step


def test_model_in_the_repository_passes_the_gate() -> None:
    weights = load_file(SHIPPED / "model.safetensors")
    model = TinyQwen3(Shape(len(weights["model.embed_tokens.weight"])))
    model.load_state_dict(weights)
    model.train(False)
    tokenizer = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    figures, kinds = measure(model, lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids), count=60)
    assert figures["copy"] >= MIN_COPY_PROBABILITY, figures
    assert max(kinds.values()) <= 0.6, "no kind of defect is known beforehand"


def test_undertrained_model_is_reported_and_can_be_exported(tmp_path: Path) -> None:
    trained = run_module("tiny_model.pretrain", tmp_path / "run", "--tokens", SHORT, "--validation-modules", 4)
    assert trained.returncode == 1, trained.stderr
    assert "train on more tokens" in trained.stdout
    exported = run_module("tiny_model.export", tmp_path / "run", tmp_path / "model")
    assert exported.returncode == 0, exported.stderr
    assert json.loads((tmp_path / "model" / "config.json").read_text()) == json.loads(
        (SHIPPED / "config.json").read_text()
    )
    shapes = {name: weight.shape for name, weight in load_file(SHIPPED / "model.safetensors").items()}
    fresh = load_file(tmp_path / "model" / "model.safetensors")
    assert {name: weight.shape for name, weight in fresh.items()} == shapes
    assert all(torch.isfinite(weight).all() for weight in fresh.values())


def run_module(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", program, *map(str, arguments)], capture_output=True, text=True)
