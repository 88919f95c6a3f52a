"""Adapters beside training all weights: memory of a step, bytes and seconds of a weight update, size of a checkpoint.

Each case is one rank on the CPU in a process of its own, with a random Qwen3 of 44 million weights in float32. Those of
WAYS also start an engine, and time whole updates of it. It runs in the trainer's image (`make bench-adapter`).
"""

from __future__ import annotations

import asyncio
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
# Ways of an update to one engine: the weights that are trained, and what the engine gets.
WAYS = {"full": ("full", "merged"), "merged": ("all", "merged"), "adapter": ("all", "adapter")}
WAY_GOALS = {"merged": 2.0, "adapter": 0.5}  # seconds, as parts of those of all weights
MIB = 2**20
SEQUENCES, LENGTH = 8, 256
UPDATES = 3  # of which the fastest counts


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "model")
        found = {case: _in_a_process("train", case, model) for case in CASES}
        updates = {way: _in_a_process("engine", way, model)["update_s"] for way in WAYS}
    names = [case for case in CASES if case != "full"]
    figures = [
        Figure(f"adapter_{case}_{what}", found[case][what], goal, peer=found["full"][what])
        for case in names
        for what, goal in GOALS.items()
    ]
    ways = [
        Figure(f"engine_update_{way}_s", updates[way], goal, peer=updates["full"]) for way, goal in WAY_GOALS.items()
    ]
    return conclude(figures + ways)


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


def _in_a_process(what: str, case: str, model: Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.adapter_bench", what, case, str(model)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def config_of(case: str, model: str, update: str = "merged") -> Any:
    """What one rank trains in a case."""
    from swerl_api import AlgorithmSpec, LoraSpec, TrainerSpec
    from swerl_trainer.megatron.config import RankConfig

    targets = CASES[case]
    lora = None if targets is None else LoraSpec.model_validate({"targets": targets, "update": update})
    return RankConfig(model, "float32", TrainerSpec(image="-", max_tokens_per_gpu=LENGTH), AlgorithmSpec(), lora)


async def update_engine(way: str, model: str) -> dict[str, float]:
    """Seconds of an update of one engine, which compares a sample of its weights too."""
    import aiohttp
    from swerl_trainer.engines.client import EngineClient
    from swerl_trainer.engines.handle import LocalEngine
    from swerl_trainer.engines.links import update_backend, weight_link
    from swerl_trainer.engines.server import ServerSettings
    from swerl_trainer.megatron.trainer import MegatronTrainer

    from tests.trainer.conftest import write_tokenizer
    from tests.trainer.engines.one_rank import OneRank

    trained, update = WAYS[way]
    write_tokenizer(Path(model))
    config = config_of(trained, model, update)
    source: Any = OneRank(MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port()))
    lora = config.lora if way == "adapter" else None
    settings = ServerSettings(model=model, dtype="float32", gpus=0, context_tokens=LENGTH, lora=lora)
    folder = Path(tempfile.mkdtemp())
    engine = LocalEngine(settings, folder / "engine.log", "127.0.0.1")
    async with aiohttp.ClientSession() as http:
        try:
            clients = [EngineClient(await engine.start(), http)]
            link = weight_link(source, clients, update_backend(settings), folder / "adapter")
            seconds = []
            for version in range(1 + UPDATES):
                began = time.perf_counter()
                await link.send(version)
                seconds.append(time.perf_counter() - began)
            return {"update_s": min(seconds[1:])}
        finally:
            await engine.stop()


def measure(case: str, model: str) -> dict[str, float]:
    """Figures of one case, in this process."""
    from swerl_trainer.algorithm import TrainingSample, demonstration_batch
    from swerl_trainer.megatron.trainer import MegatronTrainer

    config = config_of(case, model)
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
        what, case, model = sys.argv[1:]
        print(json.dumps(asyncio.run(update_engine(case, model)) if what == "engine" else measure(case, model)))
        sys.exit(0)
    sys.exit(main())
