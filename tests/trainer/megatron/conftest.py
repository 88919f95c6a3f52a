"""A tiny random Qwen3 in Hugging Face format, a batch for it, and ways to run Megatron ranks on it."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from swerl_api import AlgorithmSpec, LoraSpec, TrainerSpec
from swerl_trainer.algorithm import Batch, TrainingSample, policy_batch
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.device import Device
from swerl_trainer.megatron.trainer import MegatronTrainer
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.ports import free_port

from .families import VOCABULARY

RANKS = Path(__file__).with_name("ranks.py")
DEEP = 8  # layers of the deep model

MakeConfig = Callable[..., RankConfig]
Start = Callable[..., MegatronTrainer]
RunRanks = Callable[..., dict[str, Any]]


def make_model(folder: Path, *, tied: bool, layers: int = 2) -> Path:
    """head_dim 24 is on purpose not hidden / heads; norms are random so that a swapped one shows."""
    torch.manual_seed(7)
    architecture: Any = Qwen3ForCausalLM  # its constructor is untyped
    model = architecture(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=24,
            tie_word_embeddings=tied,
            max_position_embeddings=256,
            rope_parameters={"rope_type": "default", "rope_theta": 20_000.0},
        )
    )
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.08))
        if parameter.dim() == 1:
            parameter.data += 1
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 256}))
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the model with `untied` and `tied` output layer, and of a `deep` tied one, for interleaved stages."""
    root = tmp_path_factory.mktemp("models")
    two = {name: make_model(root / name, tied=name == "tied") for name in ("untied", "tied")}
    return two | {"deep": make_model(root / "deep", tied=True, layers=DEEP)}


@pytest.fixture(scope="session")
def batch() -> Batch:
    """Three groups of four rollouts of 20 to 60 tokens; `old` and `reference` log-probabilities differ from rollout."""
    rng = random.Random(3)
    samples = []
    for group in range(3):
        for index in range(4):
            length = rng.randint(20, 60)
            tokens = [rng.randrange(VOCABULARY) for _ in range(length)]
            mask = [0] * 8 + [int(rng.random() < 0.7) for _ in range(length - 8)]
            logprobs = [-5.8 + rng.gauss(0, 0.4) for _ in range(length)]
            samples.append(
                TrainingSample(tokens, mask, logprobs, float(index == group), True, f"g{group}", index, f"task-{group}")
            )
    base = policy_batch(samples, AlgorithmSpec())
    generator = torch.Generator().manual_seed(5)

    def noisy(values: torch.Tensor) -> torch.Tensor:
        return values + torch.randn(len(values), generator=generator) * 0.15

    rollout = [s.rollout_logprobs for s in base.sequences if s.rollout_logprobs is not None]
    return base.with_old_logprobs([noisy(r) for r in rollout]).with_reference_logprobs([noisy(r) for r in rollout])


@pytest.fixture
def make_config(models: dict[str, Path]) -> MakeConfig:
    """Configuration of an fp32 rank; `fields`: of `spec.trainer` and `spec.algorithm`; `tied` chooses the model."""

    def make(
        *, tied: bool = False, model: str = "", dtype: Any = "float32", lora: LoraSpec | None = None, **fields: Any
    ) -> RankConfig:
        settings = {"max_tokens_per_gpu": 150, "lr": 1e-3, "max_grad_norm": 0.5, "weight_decay": 0.0} | fields
        assert settings.keys() <= TrainerSpec.model_fields.keys() | AlgorithmSpec.model_fields.keys()
        trainer = {name: value for name, value in settings.items() if name in TrainerSpec.model_fields}
        algorithm = {name: value for name, value in settings.items() if name not in trainer}
        return RankConfig(
            model or str(models["tied" if tied else "untied"]),
            dtype,
            TrainerSpec(image="trainer", **trainer),
            AlgorithmSpec(**algorithm),
            lora,
        )

    return make


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a trainer of one rank in this process, on the device given or its own; the one before it is closed."""
    running: list[MegatronTrainer] = []

    def close() -> None:
        while running:
            running.pop().close()
        gc.collect()  # a model lies in cycles; until they go, the threads of its process groups wake all the time

    def start_trainer(config: RankConfig, device: Device | None = None) -> MegatronTrainer:
        close()
        place: dict[str, Any] = {"rank": 0, "world_size": 1, "address": "127.0.0.1", "port": free_port()}
        running.append(MegatronTrainer(config, **place, device=device))
        return running[0]

    yield start_trainer
    close()


@pytest.fixture
def run_ranks(tmp_path: Path) -> RunRanks:
    """Run `ranks.py` in `world_size` processes on named configurations; its report by name (see there)."""

    def run(world_size: int, cases: dict[str, RankConfig], batch: Batch, **extra: Any) -> dict[str, Any]:
        job, out = tmp_path / "job.pt", tmp_path / "out.pt"
        ports = [free_port() for _ in cases]
        torch.save({"cases": cases, "batch": batch, "ports": ports, "out": out, **extra}, job)
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", str(RANKS), str(job), str(world_size)]
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as launcher:
            try:
                output, _ = launcher.communicate(timeout=800)
            except subprocess.TimeoutExpired:
                os.killpg(launcher.pid, signal.SIGKILL)  # the ranks too, which hold its output
                raise
        assert launcher.returncode == 0, output[-8000:]
        report: dict[str, Any] = torch.load(out, weights_only=False)
        return report

    return run
