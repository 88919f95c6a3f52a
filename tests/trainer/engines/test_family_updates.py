"""Each family of models in a real engine on CPU: it starts with random weights and gets the trainer's.

Guarantees: trainer, conversion, sender, link and comparison are the product's; only the processes of Ray are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import torch
from swerl_agent.episode import api_key_headers
from swerl_api import AlgorithmSpec, TrainerSpec
from swerl_api.names import API_KEY_VARIABLE
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.links import weight_link
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.conversion import ROUTER_BIAS
from swerl_trainer.megatron.trainer import MegatronTrainer
from swerl_trainer.weight_bucket import WeightPart, WeightSample
from transformers import AutoModelForCausalLM

from tests.ports import free_port
from tests.trainer.conftest import write_tokenizer
from tests.trainer.megatron.families import MODELS, VOCABULARY, make_model

from .conftest import KEY, log_probs

TOLERANCE = 1e-4
CONTEXT = 256
PROMPT = [(7 * position) % VOCABULARY for position in range(1, 65)]  # beyond the positions before scaling
BUCKET_BYTES = 2**16  # several buckets for each model


class OneRank:
    """The training side of an update: one rank of the product's trainer in this process."""

    def __init__(self, trainer: MegatronTrainer) -> None:
        self.trainer = trainer

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

    async def weight_sample(self, version: int, *, engine_ranks: int) -> WeightSample:
        return self.trainer.sender.sample(version, engine_ranks)


@contextlib.contextmanager
def one_rank(model: Path) -> Iterator[OneRank]:
    spec = TrainerSpec(image="trainer", max_tokens_per_gpu=CONTEXT)
    config = RankConfig(str(model), "float32", spec, AlgorithmSpec(), None)
    trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
    try:
        yield OneRank(trainer)
    finally:
        trainer.close()


@contextlib.asynccontextmanager
async def random_engine(model: Path, log: Path) -> AsyncIterator[tuple[EngineClient, aiohttp.ClientSession]]:
    """A server of the model at `model` that does not read its weights."""
    settings = ServerSettings(model=str(model), dtype="float32", gpus=0, context_tokens=CONTEXT)
    engine = LocalEngine(settings, log, "127.0.0.1")
    os.environ[API_KEY_VARIABLE] = KEY
    async with aiohttp.ClientSession(headers=api_key_headers(KEY)) as http:
        try:
            yield EngineClient(await engine.start(reads_model=False), http), http
        finally:
            await engine.stop()
            del os.environ[API_KEY_VARIABLE]


async def distance(model: Any, engine: EngineClient, http: aiohttp.ClientSession) -> float:
    """Largest difference between the engine's log-probabilities and transformers' on `model`."""
    settings = {"max_new_tokens": 16, "temperature": 1.0, "ignore_eos": True}
    body = {"input_ids": PROMPT, "return_logprob": True, "sampling_params": settings}
    async with http.post(f"{engine.url}/generate", json=body) as response:
        assert response.status == 200, await response.text()
        result = await response.json()
    actual = [entry[0] for entry in result["meta_info"]["output_token_logprobs"]]
    expected = log_probs(model, PROMPT, result["output_ids"])
    return max(abs(a - b) for a, b in zip(actual, expected, strict=True))


def train(source: OneRank) -> None:
    """Change every weight by about a tenth of its size, as training does little by little."""
    with torch.no_grad():
        for value in source.trainer.model.parameters():
            value.mul_(1 + 0.1 * torch.randn_like(value))


@pytest.mark.parametrize("name", ["qwen2", "llama3", "qwen3-moe", "glm4-moe"])
async def test_engine_computes_with_the_weights_of_the_trainer(tmp_path: Path, name: str) -> None:
    original = make_model(tmp_path / "model", **MODELS[name])
    write_tokenizer(tmp_path / "model")
    check = WeightCheck()
    with one_rank(tmp_path / "model") as source:
        async with random_engine(tmp_path / "model", tmp_path / "engine.log") as (engine, http):
            assert await distance(original, engine, http) > 100 * TOLERANCE
            link = weight_link(source, [engine], "gloo", check=check)  # type: ignore[arg-type]
            await link.send(0)
            assert await distance(original, engine, http) <= TOLERANCE
            for version in (1, 2):
                train(source)
                await link.send(version)
            source.trainer.save_hf(str(tmp_path / "trained"))
            trained = AutoModelForCausalLM.from_pretrained(tmp_path / "trained", dtype=torch.float32).eval()
            assert await distance(trained, engine, http) <= TOLERANCE
            [held] = await engine.weight_sums(())
            kinds = {re.sub(r"\.\d+\.", ".N.", parameter) for parameter in held}
            left_out = {kind for kind in kinds if "experts." in kind or kind.endswith(ROUTER_BIAS)}
            assert check.matched == kinds - left_out
            await link.close()
