"""The judge with engines of its own: a real model behind a real router votes on the steps of an episode, over IPv6."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import torch
from swerl_agent.episode import HFTokenizer, SGLangEngine
from swerl_agent.judge import Judge
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.static_pool import StaticEnginePool
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.agent_spec import judge_spec

VOTE = r"\boxed{1}"
HOST = "::1"
STEP = {"step_idx": 0, "action": "ls", "returncode": 0, "output_head": "f", "output_tail": "f", "output_len": 1}


def fix_answer(folder: Path) -> None:
    """Make the model of `folder` answer VOTE, whatever it reads: each token alone decides the next."""
    tokenizer = HFTokenizer(folder)
    config = Qwen3Config.from_pretrained(folder, tie_word_embeddings=False)
    model = Qwen3ForCausalLM(config).float()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embeddings = model.get_input_embeddings().weight
        embeddings.normal_()
        model.lm_head.weight.zero_()
        chain = [*tokenizer.encode(tokenizer.header())[-1:], *tokenizer.encode(VOTE), tokenizer.turn_end_id]
        assert len(set(chain)) == len(chain)
        for token, following in pairwise(chain):
            model.lm_head.weight[following] = 20 * torch.nn.functional.normalize(embeddings[token], dim=0)
    model.save_pretrained(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(make_model: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    folder, logs = make_model(3), tmp_path_factory.mktemp("logs")
    fix_answer(folder)
    server = ServerSettings(model=str(folder), dtype="float32", gpus=0, context_tokens=4096)
    async with aiohttp.ClientSession() as http:
        router = Router.on(HOST, http, logs / "judge-router.log")
        pool = StaticEnginePool([LocalEngine(server, logs / "judge.log", HOST)], router, http, "judge")
        try:
            await pool.start()
            assert router.url.startswith("http://[::1]:")
            spec = judge_spec(max_tokens=64, context_tokens=4096, timeout_seconds=60)
            yield Judge(SGLangEngine(router.url, http), HFTokenizer(folder), spec)
        finally:
            await pool.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_every_step_gets_its_votes(judge: Judge) -> None:
    async with judge.scoring("Fix it.", "episode") as scoring:
        for number in range(3):
            scoring.step(number, f"THOUGHT: look {number}", [STEP | {"step_idx": number}])
        scores = await scoring.finish()
    found = {number: (score.score, score.votes) for number, score in scores.items()}
    assert found == dict.fromkeys(range(3), (1.0, (1, 1, 1)))


@pytest.mark.asyncio(loop_scope="module")
async def test_step_too_long_for_the_judge_stays_unscored(judge: Judge) -> None:
    async with judge.scoring("Fix it. " * 2000, "episode") as scoring:
        scoring.step(0, "THOUGHT: look", [STEP])
        scores = await scoring.finish()
    assert scores[0].score is None and "leaves no room" in scores[0].error
