"""A real SGLang server on CPU gets adapters alone, as Megatron trains them: its log-probabilities are the trainer's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
import torch
from safetensors.torch import load_file, save_file
from swerl_agent.episode import Generation, SGLangEngine
from swerl_api import AlgorithmSpec, LoraSpec
from swerl_trainer.algorithm import TrainingSample, demonstration_batch
from swerl_trainer.engines.client import ADAPTER
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.links import weight_link
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.weights import WeightTransferFailed

from .conftest import PROMPT
from .one_rank import OneRank, one_rank

LORA = LoraSpec(rank=4, alpha=6.0, targets=["q_proj", "v_proj", "o_proj", "down_proj"], update="adapter")
LONG = 1500  # tokens that take longer than the update
CONTEXT = 2048
TOLERANCE = 1e-4


def sample_of(tokens: list[int], prompt: int) -> TrainingSample:
    """A sequence whose tokens after the first `prompt` ones are trained."""
    mask = [0] * prompt + [1] * (len(tokens) - prompt)
    return TrainingSample(tokens, mask, (), 0.0, True, "demonstration", 0, "task")


def train(source: OneRank) -> None:
    """Two optimizer steps on random tokens: with the first one alone A has no gradient."""
    for _ in range(2):
        tokens = [int(token) for token in torch.randint(0, 512, (64,))]
        source.trainer.train_step(demonstration_batch([sample_of(tokens, 1)]))


def distances(source: OneRank, generation: Generation) -> torch.Tensor:
    """Difference of each token's log-probability from the trainer's."""
    batch = demonstration_batch([sample_of([*PROMPT, *generation.output_ids], len(PROMPT))])
    expected = source.trainer.log_probs(batch)[0][len(PROMPT) :]
    return (torch.tensor(generation.logprobs) - expected).abs()


class DamagingRank(OneRank):
    """A trainer whose adapter changes on its way to the engines."""

    async def save_adapter(self, folder: Path) -> None:
        await super().save_adapter(folder)
        file = folder / "adapter_model.safetensors"
        factors = load_file(file)
        factors[next(name for name in factors if "layers.0.self_attn.q_proj.lora_B" in name)][-1, -1] += 1e-3
        save_file(factors, file, metadata={"format": "pt"})


@pytest.mark.timeout(600)
async def test_engine_computes_with_the_adapter_that_the_trainer_has(
    make_model: Callable[[int], Path], tmp_path: Path
) -> None:
    model = make_model(2)
    settings = ServerSettings(model=str(model), dtype="float32", gpus=0, context_tokens=CONTEXT, lora=LORA)
    owner = LocalEngine(settings, tmp_path / "engine.log", "127.0.0.1")
    algorithm = AlgorithmSpec(lr=0.02)
    async with aiohttp.ClientSession() as http:
        router = Router.on("127.0.0.1", http, tmp_path / "router.log")
        pool = EnginePool([owner], router, http, backend="adapter", folder=tmp_path / "adapter")
        engine = SGLangEngine(router.url, http, adapter=ADAPTER)

        async def generate(tokens: int) -> Generation:
            return await engine.generate(
                PROMPT,
                max_new_tokens=tokens,
                temperature=1.0,
                stop_token_ids=[],
                routing_key="episode",
                truncation={"ignore_eos": True},  # a random model ends early
            )

        with one_rank(model, tokens=CONTEXT, lora=LORA, algorithm=algorithm) as source:
            try:
                await pool.start()
                lock = asyncio.Lock()
                train(source)
                await pool.attach(source, 0, lock)  # type: ignore[arg-type]
                assert distances(source, await generate(16)).max() < TOLERANCE
                running = asyncio.create_task(generate(LONG))
                await asyncio.sleep(1.0)
                train(source)
                async with lock:
                    await pool.update_weights(1)
                long = await running
                (before, _, switch), (after, start, end) = long.weight_versions
                assert (before, after, start, end) == ("0", "1", switch, LONG)
                assert distances(source, long)[switch:].max() < TOLERANCE
                assert distances(source, long)[:switch].max() > 0.1  # those of the adapter before
                assert distances(source, await generate(16)).max() < TOLERANCE
                assert pool.check.matched == {
                    f"model.layers.N.{module}.lora_{factor}"
                    for module in ("qkv_proj", "o_proj", "down_proj")
                    for factor in "AB"
                }
                damaging = weight_link(
                    DamagingRank(source.trainer),  # type: ignore[arg-type]
                    pool.clients(),
                    "adapter",
                    tmp_path / "damaged",
                    check=pool.check,
                )
                with pytest.raises(WeightTransferFailed, match=r"qkv_proj\.lora_B differs") as failure:
                    await damaging.send(2)
                assert list(failure.value.engines) == pool.clients()
            finally:
                await pool.close()
