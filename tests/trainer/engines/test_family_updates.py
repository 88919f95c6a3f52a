"""Each family of models in a real engine on CPU: it starts with random weights and gets the trainer's.

Guarantees: trainer, conversion, sender, link and comparison are the product's; only the processes of Ray are left out.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import torch
from swerl_agent.episode import api_key_headers
from swerl_api.names import API_KEY_VARIABLE
from swerl_trainer.engines.client import EngineClient
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.links import weight_link
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.engines.weights import WeightTransferFailed
from transformers import AutoModelForCausalLM

from tests.trainer.conftest import write_tokenizer
from tests.trainer.megatron.families import MODELS, VOCABULARY, make_model

from .conftest import KEY, log_probs
from .one_rank import OneRank, one_rank

TOLERANCE = 1e-4
CONTEXT = 256
PROMPT = [(7 * position) % VOCABULARY for position in range(1, 65)]  # beyond the positions before scaling


@contextlib.asynccontextmanager
async def random_engine(
    model: Path, log: Path, ranks: int, expert_ranks: int = 1
) -> AsyncIterator[tuple[EngineClient, aiohttp.ClientSession]]:
    """A server of `ranks` tensor-parallel ranks of the model at `model` that does not read its weights."""
    arguments = {"tp-size": ranks, "ep-size": expert_ranks} if ranks > 1 else {}
    settings = ServerSettings(model=str(model), dtype="float32", gpus=0, context_tokens=CONTEXT, arguments=arguments)
    engine = LocalEngine(settings, log, "127.0.0.1")
    os.environ[API_KEY_VARIABLE] = KEY
    async with aiohttp.ClientSession(headers=api_key_headers(KEY)) as http:
        try:
            yield EngineClient(await engine.start(reads_model=False), http, ranks=ranks), http
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


def change_an_expert(source: OneRank) -> None:
    """Another weight in the last expert of each layer than the engine has."""
    with torch.no_grad():
        for name, value in source.trainer.model.named_parameters():
            if "experts.7." in name or name.endswith("weight7"):
                value[0, 0] += 1


def sizes(name: str) -> dict[str, int]:
    """Multiples of 32 on each rank, to which SGLang pads these sizes on CPU."""
    return {"intermediate_size": 128} | ({"moe_intermediate_size": 64} if "moe" in name else {})


@pytest.mark.parametrize(("name", "ranks"), [("qwen2", 1), ("llama3", 2), ("qwen3-moe", 2), ("glm4-moe", 1)])
async def test_engine_computes_with_the_weights_of_the_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ranks: int
) -> None:
    monkeypatch.setenv("SGLANG_CPU_OMP_THREADS_BIND", "|".join(["0"] * ranks))  # else a rank needs a NUMA node
    original = make_model(tmp_path / "model", **MODELS[name] | sizes(name))
    write_tokenizer(tmp_path / "model")
    check = WeightCheck()
    with one_rank(tmp_path / "model", tokens=CONTEXT) as source:
        async with random_engine(tmp_path / "model", tmp_path / "engine.log", ranks) as (engine, http):
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
            held = await engine.weight_sums(())
            assert len(held) == ranks
            assert [{re.sub(r"\.\d+\.", ".N.", parameter) for parameter in each} for each in held] == [
                check.matched
            ] * ranks
            if "moe" in name:
                source.before_sample = lambda: change_an_expert(source)
                with pytest.raises(WeightTransferFailed, match=r"layers\.1\.mlp\.experts\.7\.w13_weight.* differs"):
                    await link.send(4)
            await link.close()


async def test_experts_that_an_engine_divides_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer: on CPU SGLang 0.5.23 loads divided experts, but does not compute with them."""
    monkeypatch.setenv("SGLANG_CPU_OMP_THREADS_BIND", "0|0")
    make_model(tmp_path / "model", **MODELS["qwen3-moe"] | sizes("qwen3-moe"))
    write_tokenizer(tmp_path / "model")
    check = WeightCheck(expert_ranks=2)
    with one_rank(tmp_path / "model", tokens=CONTEXT) as source:
        async with random_engine(tmp_path / "model", tmp_path / "engine.log", 2, expert_ranks=2) as (engine, _):
            link = weight_link(source, [engine], "gloo", check=check)  # type: ignore[arg-type]
            for version in (0, 1, 2):
                train(source)
                await link.send(version)
            assert check.uncompared == 0
            held = await engine.weight_sums(())
            experts = [set(re.findall(r"\.experts\.(\d)\.", " ".join(sums))) for sums in held]
            assert experts == [set("0123"), set("4567")]
            source.before_sample = lambda: change_an_expert(source)
            with pytest.raises(WeightTransferFailed, match=r"layers\.1\.mlp\.experts\.7\.w13_weight.* differs"):
                await link.send(4)
            await link.close()
