"""Adapters beside training all weights: memory of a step, bytes and seconds of a weight update, size of a checkpoint.

Each case is one rank on the CPU in a process of its own, with a random Qwen3 of 44 million weights in float32. It runs
in the trainer's image (`make bench-adapter`).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, conclude
from tests.ports import free_port

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
CASES = {"full": None, "attention": ATTENTION, "all": [*ATTENTION, "gate_proj", "up_proj", "down_proj"]}
# Parts of training all weights. Merging costs time that a network would not show: here nothing is sent.
GOALS = {"step_memory_mib": 0.7, "update_mib": 0.7, "update_s": 1.5, "checkpoint_mib": 0.1}
MIB = 2**20
SEQUENCES, LENGTH = 8, 256
UPDATES = 3  # of which the fastest counts


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "model")
        found = {case: _in_a_process(case, model) for case in CASES}
    names = [case for case in CASES if case != "full"]
    return conclude([
        Figure(f"adapter_{case}_{what}", found[case][what], goal, peer=found["full"][what])
        for case in names
        for what, goal in GOALS.items()
    ])  # fmt: skip


def make_model(folder: Path) -> Path:
    """A random Qwen3 in Hugging Face format."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=16_384,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        tie_word_embeddings=False,
    )
    model: Any = Qwen3ForCausalLM  # its constructor is untyped
    model(config).float().save_pretrained(folder)
    return folder


def _in_a_process(case: str, model: Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.adapter_bench", case, str(model)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def measure(case: str, model: str) -> dict[str, float]:
    """Figures of one case, in this process."""
    from swerl_api import AlgorithmSpec, LoraSpec, TrainerSpec
    from swerl_trainer.algorithm import TrainingSample, demonstration_batch
    from swerl_trainer.megatron.config import RankConfig
    from swerl_trainer.megatron.trainer import MegatronTrainer

    targets = CASES[case]
    lora = None if targets is None else LoraSpec.model_validate({"targets": targets})
    config = RankConfig(model, "float32", TrainerSpec(image="-", max_tokens_per_gpu=LENGTH), AlgorithmSpec(), lora)
    before = _peak()
    trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
    samples = [
        TrainingSample(list(range(LENGTH)), [0] + [1] * (LENGTH - 1), (), 0.0, True, "d", number, "task")
        for number in range(SEQUENCES)
    ]
    for _ in range(2):
        trainer.train_step(demonstration_batch(samples))
    memory = _peak() - before
    seconds = []
    for _ in range(UPDATES):
        began = time.perf_counter()
        buckets = trainer.sender.metadata(512 * MIB, whole=False)
        for number in range(len(buckets)):
            trainer.sender.export(number)
        seconds.append(time.perf_counter() - began)
    folder = Path(model).with_name(case)
    trainer.save(str(folder))
    checkpoint = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "step_memory_mib": memory / MIB,
        "update_mib": sum(bucket.bytes for bucket in buckets) / MIB,
        "update_s": min(seconds),
        "checkpoint_mib": checkpoint / MIB,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], sys.argv[2])))
        sys.exit(0)
    sys.exit(main())
