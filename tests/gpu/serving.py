"""One SGLang engine on the GPU, called as the driver and the episodes call it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.location import Location

HERE = Location("here", 0)
PROMPT = [5, 6, 7, 8, 9, 10, 11, 100, 200, 250]


@dataclass(frozen=True)
class Answer:
    """What an engine said to a prompt."""

    tokens: list[int]
    logprobs: list[float]  # as many
    version: str


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    client: EngineClient
    http: aiohttp.ClientSession

    async def generate(self, count: int, *, prompt: list[int] | None = None, temperature: float = 1.0) -> Answer:
        """Exactly `count` tokens after `prompt`."""
        sampling = {"max_new_tokens": count, "temperature": temperature, "ignore_eos": True}
        body = {"input_ids": prompt or PROMPT, "return_logprob": True, "sampling_params": sampling}
        async with self.http.post(f"{self.client.url}/generate", json=body) as response:
            assert response.status == 200, await response.text()
            answer: dict[str, Any] = await response.json()
        meta = answer["meta_info"]
        pairs = meta["output_token_logprobs"]
        return Answer([pair[1] for pair in pairs], [pair[0] for pair in pairs], str(meta["weight_version"]))


def kernel_arguments() -> dict[str, Any]:
    """Server arguments for the kernels here: none with SGLang's own, Triton's and torch's with those of carry.sh.

    What carry.sh brings keeps the memory of captured graphs, and prefill captures many.
    """
    from sgl_kernel import __version__ as version

    if not version.endswith("+standin"):
        return {}
    return {"attention-backend": "triton", "sampling-backend": "pytorch", "cuda-graph-backend-prefill": "disabled"}


@asynccontextmanager
async def engine_of(
    model: Path, log: Path, *, share_gpu: bool = False, memory: float = 0.3, context_tokens: int = 4096
) -> AsyncIterator[Engine]:
    """An engine of the model in `model`, a folder without tokenizer; `memory`: its part of the GPU's."""
    settings = ServerSettings(
        model=str(model),
        dtype="bfloat16",
        gpus=1,
        context_tokens=context_tokens,
        share_gpu=share_gpu,
        arguments={"mem-fraction-static": memory, "skip-tokenizer-init": True} | kernel_arguments(),
    )
    owner = LocalEngine(settings, log, "127.0.0.1", [HERE])
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as http:
        try:
            yield Engine(EngineClient(await owner.start(), http, locations=owner.locations), http)
        finally:
            await owner.stop()
