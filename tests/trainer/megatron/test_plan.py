"""What ranks really hold, against what the plan says."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from swerl_api import AlgorithmSpec, TrainerSpec
from swerl_plan.layout import Layout
from swerl_plan.memory import CPU_PROCESS, TrainingSettings, rank_memory
from swerl_plan.shape import read_shape
from swerl_trainer.algorithm import Batch, TrainingSample, policy_batch
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.conversion import hf_shapes
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.ports import free_port

from .plan_limits import PHASES, error_limit

MEASURED = Path(__file__).with_name("measured.py")
TOKENS = 128  # of a micro-batch
LAYOUTS: dict[str, dict[str, int]] = {
    "data": {},
    "tensor": {"tensor_parallel": 2},
    "interleaved": {"pipeline_parallel": 2, "virtual_pipeline": 3},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights outweigh what a process has besides: 75 million parameters."""
    return write_model(tmp_path_factory.mktemp("model"))


def write_model(folder: Path) -> Path:
    """A random Qwen3 in Hugging Face format."""
    architecture: Any = Qwen3ForCausalLM
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=6,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=64,
        tie_word_embeddings=True,
        max_position_embeddings=512,
    )
    architecture(config).save_pretrained(folder)
    return folder


def batch() -> Batch:
    """A sequence of TOKENS tokens for each of two ranks, every token of it trained."""
    samples = [
        TrainingSample([7 + i] * TOKENS, [0] + [1] * (TOKENS - 1), [-8.0] * TOKENS, float(i), True, "g", i, "task")
        for i in range(2)
    ]
    return policy_batch(samples, AlgorithmSpec())


SMALL = {
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 320,
}
MIXTURE = {"num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": True}
GLM = {"attention_bias": True, "partial_rotary_factor": 0.5, "n_group": 1, "topk_group": 1}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {"tie_word_embeddings": True},
    "llama": {},
    "qwen3_moe": {**MIXTURE, "num_experts": 8},
    "glm4_moe": {**MIXTURE, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1} | GLM,
}


@pytest.mark.parametrize("family", CONFIGURATIONS)
def test_planned_parameters_are_those_of_the_tensors(family: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, **SMALL, **CONFIGURATIONS[family]}))
    tensors = hf_shapes(read_architecture(tmp_path)).values()
    assert read_shape(tmp_path).parameters == sum(map(math.prod, tensors))


@pytest.mark.parametrize("name", LAYOUTS)
def test_ranks_hold_what_the_plan_says(name: str, model: Path, tmp_path: Path) -> None:
    for (rank, what), error in deviations(name, model, tmp_path).items():
        assert abs(error) <= error_limit(name, rank, what, error), (rank, what)


def deviations(name: str, model: Path, folder: Path) -> dict[tuple[int, str], float]:
    """What two ranks hold against what the plan says, as relative errors by rank and phase, or part of a step."""
    trainer = TrainerSpec(image="t", replicas=2, max_tokens_per_gpu=TOKENS, **LAYOUTS[name])
    config = RankConfig(str(model), "float32", trainer, AlgorithmSpec())
    settings = TrainingSettings(4, TOKENS, "none", offload=False, colocate=False, reference=False)
    planned = rank_memory(read_shape(model), Layout.of(trainer), settings)
    sizes = {part: float(planned["step"].host[part]) for part in ("weights", "gradients", "optimizer")}
    sizes |= {phase: float(planned[phase].host_bytes - CPU_PROCESS) for phase in PHASES}
    reports = ranks(folder, {"config": config, "batch": batch()})
    return {
        (number, what): size / sizes[what] - 1
        for number, report in enumerate(reports)
        for what, size in (report["held"] | report["peaks"]).items()
    }


def ranks(folder: Path, job: dict[str, Any]) -> list[dict[str, Any]]:
    """The reports of two ranks."""
    file, out = folder / "job.pt", folder / "out.pt"
    torch.save({**job, "port": free_port(), "out": out}, file)
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-W", "ignore", str(MEASURED), str(file)]
    processes = [
        subprocess.Popen([*command, str(rank), "2"], env=environ, stdout=-1, stderr=subprocess.STDOUT, text=True)
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=400)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)[-4000:]
    reports: list[dict[str, Any]] = torch.load(out, weights_only=False)
    return reports
