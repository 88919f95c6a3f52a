"""What ranks really hold, against what the plan says."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from swerl_api import AlgorithmSpec, LoraSpec, TrainerSpec
from swerl_api.model import ATTENTION_TARGETS, LoraTarget
from swerl_plan.layout import Layout
from swerl_plan.memory import CPU_PROCESS, GPU_RESERVE, TrainingSettings, rank_memory
from swerl_plan.shape import ModelShape, read_shape
from swerl_trainer.algorithm import Batch, TrainingSample, policy_batch
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.conversion import hf_shapes
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from tests.ports import free_port

from .plan_limits import PARTS, error_limit

MEASURED = Path(__file__).with_name("measured.py")
MIXTURE = {"num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": True}
BUCKET = 32 * 2**20  # bytes of weights in a transfer, of which the model has several
LORA_TARGETS: tuple[LoraTarget, ...] = (*ATTENTION_TARGETS, "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class PlanCase:
    """What two ranks train."""

    fields: dict[str, Any] = field(default_factory=dict)  # of spec.trainer
    tokens: int = 128  # of a micro-batch
    experts: bool = False
    lora: LoraSpec | None = None

    @property
    def trainer(self) -> TrainerSpec:
        """Two ranks without GPUs."""
        return TrainerSpec(image="t", replicas=2, max_tokens_per_gpu=self.tokens, **self.fields)

    @property
    def settings(self) -> TrainingSettings:
        """As the job's plan has them."""
        plain = TrainingSettings(4, self.tokens, self.trainer.recompute, offload=False, colocate=False, reference=False)
        return replace(
            plain,
            bucket=BUCKET,
            adapter_rank=self.lora.rank if self.lora else 0,
            adapter_targets=tuple(self.lora.targets) if self.lora else (),
        )


CASES = {
    "data": PlanCase(),
    "tensor": PlanCase({"tensor_parallel": 2}),
    "interleaved": PlanCase({"pipeline_parallel": 2, "virtual_pipeline": 3}),
    "context": PlanCase({"context_parallel": 2}),
    "experts": PlanCase({"expert_parallel": 2}, experts=True),
    "adapters": PlanCase({"tensor_parallel": 2}, lora=LoraSpec(targets=list(LORA_TARGETS))),
    "recomputed": PlanCase({"recompute": "full"}, tokens=512),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """See `write_models`."""
    return write_models(tmp_path_factory.mktemp("models"))


def write_models(folder: Path) -> dict[str, Path]:
    """Random Qwen3: tiny; and without and with experts, whose weights outweigh what a process has besides: 75 and 85
    million parameters."""
    shared = {
        "vocab_size": 4096,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "tie_word_embeddings": True,
        "max_position_embeddings": 512,
    }
    dense: Any = Qwen3ForCausalLM  # their constructors are untyped
    mixture: Any = Qwen3MoeForCausalLM
    experts = MIXTURE | {"num_experts": 8, "moe_intermediate_size": 1024}
    made = {
        "tiny": dense(Qwen3Config(**shared | {"hidden_size": 64}, intermediate_size=96, num_hidden_layers=1)),
        "dense": dense(Qwen3Config(**shared, intermediate_size=2816, num_hidden_layers=6)),
        "mixture": mixture(Qwen3MoeConfig(**shared, **experts, num_hidden_layers=3)),
    }
    for name, model in made.items():
        model.save_pretrained(folder / name)
    return {name: folder / name for name in made}


def batch(tokens: int) -> Batch:
    """A sequence of `tokens` random tokens for each of two ranks, every token of it trained."""
    rng = random.Random(0)
    samples = [
        TrainingSample(
            [rng.randrange(4096) for _ in range(tokens)],
            [0] + [1] * (tokens - 1),
            [-8.0] * tokens,
            float(i),
            True,
            "g",
            i,
            "task",
        )
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


RUNS = 3  # at most: samples of a busy machine miss short peaks, so that one run may show less than there was


@pytest.mark.parametrize("name", CASES)
def test_ranks_hold_what_the_plan_says(name: str, models: dict[str, Path], tmp_path: Path) -> None:
    found: dict[tuple[int, str], float] = {}
    for number in range(RUNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        for key, error in deviations(name, models, folder).items():
            found[key] = max(error, found.get(key, error))
        if not (beyond := {key: error for key, error in found.items() if abs(error) > error_limit(name, *key, error)}):
            break
    assert not beyond


def deviations(name: str, models: dict[str, Path], folder: Path) -> dict[tuple[int, str], float]:
    """What two ranks hold against what the plan says, as relative errors by rank and phase, or part of a step."""
    case = CASES[name]
    model = models["mixture" if case.experts else "dense"]
    config = RankConfig(str(model), "float32", case.trainer, AlgorithmSpec(), case.lora)
    sizes = planned_sizes(case, read_shape(model))
    warm_up = RankConfig(str(models["tiny"]), "float32", PlanCase(tokens=case.tokens).trainer, AlgorithmSpec())
    reports = ranks(folder, {"config": config, "warm_up": warm_up, "batch": batch(case.tokens), "bucket": BUCKET})
    return {
        (number, what): size / sizes[what] - 1
        for number, report in enumerate(reports)
        for what, size in (report["held"] | report["peaks"]).items()
    }


def planned_sizes(case: PlanCase, shape: ModelShape) -> dict[str, float]:
    """Bytes of a rank by part of a step and by phase, beside those of its process. A switch needs what it does on a
    GPU, and the gradients, which a rank without one keeps."""
    layout = Layout.of(case.trainer)
    planned = rank_memory(shape, layout, case.settings)
    held = planned["step"].host
    sizes = {phase: planned[phase].host_bytes - CPU_PROCESS for phase in planned}
    switch = rank_memory(shape, replace(layout, gpus=1), replace(case.settings, colocate=True))["switch"]
    sizes["switch"] = switch.gpu_bytes - GPU_RESERVE + held["gradients"]
    return {what: float(size) for what, size in [*sizes.items(), *((p, held[p]) for p in PARTS)]}


def ranks(folder: Path, job: dict[str, Any]) -> list[dict[str, Any]]:
    """The reports of two ranks."""
    file, out = folder / "job.pt", folder / "out.pt"
    torch.save({**job, "ports": [free_port() for _ in range(4)], "out": out}, file)
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
