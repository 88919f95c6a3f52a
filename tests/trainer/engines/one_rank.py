"""The training side of an update: one rank of the product's trainer in this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from swerl_api import AlgorithmSpec, LoraSpec, TrainerSpec
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.trainer import MegatronTrainer
from swerl_trainer.weight_bucket import WeightPart, WeightSample

from tests.ports import free_port

BUCKET_BYTES = 2**16  # several buckets for each tiny model


class OneRank:
    """What links need of the training ranks, from one."""

    def __init__(self, trainer: MegatronTrainer) -> None:
        self.trainer = trainer
        self.before_sample: Callable[[], None] | None = None  # called once, before weights are summed

    async def weight_parts(self, max_bytes: int = 0, *, whole: bool = True) -> list[WeightPart]:
        return [self.trainer.sender.part(BUCKET_BYTES, whole=whole)]

    async def weight_endpoint(self, rank: int = 0) -> tuple[str, int]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return "127.0.0.1", int(probe.getsockname()[1])

    async def connect_engines(self, rank: int, address: str, port: int, **settings: Any) -> None:
        await asyncio.to_thread(self.trainer.sender.connect, address, port, **settings)

    async def prepare_bucket(self, part: WeightPart) -> None:
        self.trainer.sender.prepare(0)

    async def send_bucket(self, part: WeightPart, number: int, *, group_name: str) -> None:
        await asyncio.to_thread(self.trainer.sender.send, number, group_name)

    async def disconnect_engines(self, rank: int, group_name: str) -> None:
        self.trainer.sender.close(group_name)

    async def save_adapter(self, folder: Path) -> None:
        self.trainer.save_adapter(str(folder))

    async def weight_sample(self, version: int, *, engine_ranks: int, expert_ranks: int = 1) -> WeightSample:
        if (call := self.before_sample) is not None:
            self.before_sample = None
            call()
        return self.trainer.sender.sample(version, engine_ranks, expert_ranks)


@contextlib.contextmanager
def one_rank(
    model: Path, *, tokens: int, lora: LoraSpec | None = None, algorithm: AlgorithmSpec | None = None
) -> Iterator[OneRank]:
    """A rank that trains the model, with micro-batches of at most `tokens`."""
    spec = TrainerSpec(image="trainer", max_tokens_per_gpu=tokens)
    config = RankConfig(str(model), "float32", spec, algorithm or AlgorithmSpec(), lora)
    trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
    try:
        yield OneRank(trainer)
    finally:
        trainer.close()
