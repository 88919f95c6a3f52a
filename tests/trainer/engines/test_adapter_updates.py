"""A real SGLang server on CPU that gets adapters alone: its log-probabilities are those of the merged weights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
import torch
from swerl_agent.episode import Generation, SGLangEngine
from swerl_api import LoraSpec
from swerl_trainer.engines.client import ADAPTER
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.hf_folder import write_adapter
from swerl_trainer.megatron.lora import adapter_shapes, peft_config
from transformers import Qwen3ForCausalLM

from .conftest import PROMPT, log_probs

LORA = LoraSpec(rank=4, alpha=6.0, targets=["q_proj", "v_proj", "o_proj", "down_proj"], update="adapter")
LONG = 1500  # tokens that take longer than the update
TOLERANCE = 1e-4


class HeldAdapter:
    """The training side: random factors beside the model of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.factors: dict[str, torch.Tensor] = {}
        self.change()

    def change(self) -> None:
        """Other factors."""
        shapes = adapter_shapes(read_architecture(self.folder), LORA)
        self.factors = {name: torch.randn(shape) * 0.2 for name, shape in shapes.items()}

    async def save_adapter(self, folder: Path) -> None:
        write_adapter(folder, peft_config(LORA, str(self.folder)), self.factors.items())

    def merged(self) -> Qwen3ForCausalLM:
        """transformers' model with the present factors."""
        model = Qwen3ForCausalLM.from_pretrained(self.folder, dtype=torch.float32).eval()
        for name, a in self.factors.items():
            if ".lora_A" in name:
                weight = model.get_parameter(name.replace(".lora_A", ""))
                weight.data += LORA.alpha / LORA.rank * self.factors[name.replace("lora_A", "lora_B")] @ a
        return model


def distances(source: HeldAdapter, generation: Generation) -> torch.Tensor:
    """Difference of each token's log-probability from transformers' on the merged model."""
    expected = log_probs(source.merged(), PROMPT, generation.output_ids)
    return (torch.tensor(generation.logprobs) - torch.tensor(expected)).abs()


@pytest.mark.timeout(600)
async def test_running_request_continues_with_the_new_adapter(
    make_model: Callable[[int], Path], tmp_path: Path
) -> None:
    source = HeldAdapter(make_model(2))
    settings = ServerSettings(model=str(source.folder), dtype="float32", gpus=0, context_tokens=4096, lora=LORA)
    owner = LocalEngine(settings, tmp_path / "engine.log", "127.0.0.1")
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

        try:
            await pool.start()
            lock = asyncio.Lock()
            await pool.attach(source, 0, lock)  # type: ignore[arg-type]
            assert distances(source, await generate(16)).max() < TOLERANCE
            running = asyncio.create_task(generate(LONG))
            await asyncio.sleep(1.0)
            source.change()
            async with lock:
                await pool.update_weights(1)
            long = await running
            (before, _, switch), (after, start, end) = long.weight_versions
            assert (before, after, start, end) == ("0", "1", switch, LONG)
            assert distances(source, long)[switch:].max() < TOLERANCE
            assert distances(source, long)[:switch].max() > 0.1  # those of the adapter before
            assert distances(source, await generate(16)).max() < TOLERANCE
        finally:
            await pool.close()
