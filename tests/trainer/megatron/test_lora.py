"""Adapters: function and gradients of a plain torch LoRA, under every layout; checkpoints, exports, updates."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from swerl_api import LoraSpec
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.environment import cpu_process_environment
from swerl_trainer.megatron.errors import LayoutError
from swerl_trainer.megatron.hf_folder import PEFT_PREFIX
from swerl_trainer.megatron.model import export_adapters
from torch import Tensor
from transformers import AutoModelForCausalLM

from .families import MODELS, make_model, read_folder

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

ALL = LoraSpec(rank=4, alpha=6.0, targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
FIGURES = ("loss", "grad_norm", "logprob", "entropy", "kl")
TERMS: dict[str, Any] = {"kl_coef": 0.05, "entropy_coef": 0.01, "lr": 1e-2}


def factors(trainer: Any) -> dict[str, Tensor]:
    return {name: t.clone() for name, t in export_adapters(trainer.model, trainer.architecture, trainer.adapters)}


def merged(folder: Path, found: dict[str, Tensor], scale: float) -> Any:
    """transformers' model of `folder` with W + scale * B A, for factors named as PEFT does without its prefix."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    weights = dict(model.named_parameters())
    for name, a in found.items():
        if ".lora_A" in name:
            weights[name.replace(".lora_A", "")].data += scale * found[name.replace("lora_A", "lora_B")] @ a
    return model


def log_probs(model: Any, tokens: Tensor) -> Tensor:
    return torch.log_softmax(model(tokens[None]).logits[0, :-1], -1).gather(1, tokens[1:, None])[:, 0]


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        ("qwen2-tied-yarn", ALL.targets),
        ("qwen3-yarn", ["q_proj", "v_proj", "up_proj"]),
        ("qwen3-moe", ["k_proj", "o_proj"]),
    ],
)
def test_trained_adapters_compute_and_export_as_merged_weights(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path, model: str, targets: Any
) -> None:
    original = make_model(tmp_path / "model", **MODELS[model])
    lora = LoraSpec(rank=4, alpha=6.0, targets=targets)
    trainer = start(make_config(model=str(tmp_path / "model"), lora=lora, recompute="full", **TERMS))
    logprobs_before = trainer.log_probs(batch)
    with torch.no_grad():
        for actual, sequence in zip(logprobs_before, batch.sequences, strict=True):
            assert (actual[1:] - log_probs(original, sequence.tokens) * sequence.mask[1:]).abs().max() < 1e-5
    for _ in range(2):
        assert trainer.train_step(batch)["grad_norm"] > 0
    found = factors(trainer)
    assert {name.split(".")[-3] for name in found} == set(targets)
    assert all(factor.abs().max() > 0 for factor in found.values())
    merged_model = merged(tmp_path / "model", found, 1.5)
    with torch.no_grad():
        for actual, sequence in zip(trainer.log_probs(batch), batch.sequences, strict=True):
            assert (actual[1:] - log_probs(merged_model, sequence.tokens) * sequence.mask[1:]).abs().max() < 1e-5
    trainer.save_hf(str(tmp_path / "hf"))
    written, base = (load_file(next(iter((tmp_path / n).glob("*.safetensors")))) for n in ("hf", "model"))
    for name, tensor in merged_model.state_dict().items():
        if name in written:
            changed = any(name.endswith(f"{target}.weight") for target in targets) and "experts" not in name
            assert torch.allclose(written[name], tensor, atol=1e-6), name
            assert torch.equal(written[name], base[name]) != changed, name
    reference = trainer.log_probs(batch, reference=True)
    assert all(torch.equal(actual, start_value) for actual, start_value in zip(reference, logprobs_before, strict=True))


def test_gradients_equal_those_of_plain_torch(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config(lora=ALL, max_grad_norm=1e9, lr=1e-2))
    trainer.train_step(batch)
    found = {name: factor.requires_grad_() for name, factor in factors(trainer).items()}
    model = AutoModelForCausalLM.from_pretrained(trainer.config.model, dtype=torch.float32)
    changed = {
        name.replace(".lora_A", ""): model.get_parameter(name.replace(".lora_A", "")).detach()
        + 1.5 * found[name.replace("lora_A", "lora_B")] @ a
        for name, a in found.items()
        if ".lora_A" in name
    }
    total = torch.zeros(())
    for s in batch.sequences:
        logits = torch.func.functional_call(model, changed, (s.tokens[None],)).logits[0, :-1]
        values = torch.log_softmax(logits, -1).gather(1, s.tokens[1:, None])[:, 0]
        total = total - (values * s.advantages[1:] * s.weights[1:]).sum()
    total.backward()
    on_policy = Batch(tuple(replace(sequence, old_logprobs=None) for sequence in batch.sequences))
    squares = [float((factor.grad**2).sum()) for factor in found.values() if factor.grad is not None]
    assert len(squares) == len(found)
    assert trainer.train_step(on_policy)["grad_norm"] == pytest.approx(sum(squares) ** 0.5, rel=1e-4)


LAYOUTS: dict[str, dict[str, Any]] = {
    "data": {},
    "tensor": {"tensor_parallel": 2},
    "pipeline": {"pipeline_parallel": 2, "recompute": "full"},
    "interleaved": {"pipeline_parallel": 2, "virtual_pipeline": 4, "recompute": "full"},
}


@pytest.mark.timeout(900)
def test_every_layout_trains_the_same_adapters(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch, models: dict[str, Path]
) -> None:
    fields: dict[str, Any] = {"model": str(models["deep"]), "lora": ALL, **TERMS}
    one_rank = start(make_config(**fields))
    expected = [one_rank.train_step(batch) for _ in range(3)]
    report = run_ranks(2, {name: make_config(**fields, **layout) for name, layout in LAYOUTS.items()}, batch)
    exports = []
    for name in LAYOUTS:
        for step, figures in zip(report[name]["steps"], expected, strict=True):
            assert {f: step[f] for f in FIGURES} == pytest.approx({f: figures[f] for f in FIGURES}, rel=5e-4), name
        assert report[name]["again"]["grad_norm"] == report[name]["steps"][2]["grad_norm"], name
        exports.append(read_folder(report[name]["folder"] / "hf"))
    assert all(torch.allclose(export[t], exports[0][t], atol=2e-5) for export in exports for t in exports[0])
    resumed = start(make_config(**fields, seed=99))
    for name in LAYOUTS:
        resumed.load(str(report[name]["folder"] / "checkpoint"))
        assert resumed.train_step(batch)["grad_norm"] == pytest.approx(expected[2]["grad_norm"], rel=5e-4), name
    a_checkpoint_is_small_and_gives_adapter_and_model(report["tensor"]["folder"], resumed.config.model)


def a_checkpoint_is_small_and_gives_adapter_and_model(folder: Path, model: str) -> None:
    size = sum(path.stat().st_size for path in (folder / "checkpoint").rglob("*") if path.is_file())
    assert size < 4 * sum(f.nbytes for f in read_folder(folder / "hf").values())
    command = [sys.executable, "-W", "ignore", "-m", "swerl_trainer.megatron.export", str(folder / "checkpoint"), model]
    environ = {**cpu_process_environment(), "OMP_NUM_THREADS": "1"}
    for out, option in (("again", []), ("adapter", ["--adapter"])):
        subprocess.run(
            [*command, str(folder / out), "--dtype", "float32", *option], env=environ, check=True, timeout=300
        )
    ranks, exported = (read_folder(folder / name) for name in ("hf", "again"))
    assert all(torch.equal(exported[name], ranks[name]) for name in ranks)
    adapter = load_file(folder / "adapter" / "adapter_model.safetensors")
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    found = {name.removeprefix(PEFT_PREFIX): factor for name, factor in adapter.items()}
    merged_state = merged(Path(model), found, config["lora_alpha"] / config["r"]).state_dict()
    assert all(torch.allclose(exported[name], merged_state[name], atol=1e-6) for name in exported)


def test_an_update_sends_only_the_matrices_with_adapters(start: Start, make_config: MakeConfig) -> None:
    trainer = start(make_config(lora=LoraSpec(targets=["q_proj", "v_proj"])))
    sent = [name for bucket in trainer.sender.metadata(2**20, whole=False) for name in bucket.names]
    assert sent == [f"model.layers.{layer}.self_attn.{target}_proj.weight" for layer in (0, 1) for target in "qv"]
    bucket_names = [name for bucket in trainer.sender.metadata(2**20) for name in bucket.names]
    assert set(sent) < set(bucket_names) and "lm_head.weight" in bucket_names
    assert trainer.sender.export(0)


def test_adapters_of_experts_are_refused(start: Start, make_config: MakeConfig, tmp_path: Path) -> None:
    make_model(tmp_path, **MODELS["qwen3-moe"])
    with pytest.raises(LayoutError, match="up_proj: experts of a mixture have no adapters; use q_proj"):
        start(make_config(model=str(tmp_path), lora=LoraSpec(targets=["q_proj", "up_proj"])))
