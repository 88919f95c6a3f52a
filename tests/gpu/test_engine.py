"""An engine on the GPU samples from the model, pauses, and continues."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import Qwen3ForCausalLM

from tests.gpu.record import record
from tests.gpu.serving import PROMPT, Answer, engine_of
from tests.gpu.shapes import QWEN3_0_6B, TINY, Shape

if TYPE_CHECKING:
    from tests.gpu.conftest import MakeShape

PAUSE_SECONDS = 1.0
LONG = 3000  # tokens; more than a second of generation


def distances(folder: Path, answer: Answer) -> torch.Tensor:
    """|engine - transformers| log-probability of each token; transformers computes in float32."""
    loaded: Any = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = loaded.cuda().eval()
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT + answer.tokens], device="cuda")).logits[0, len(PROMPT) - 1 : -1]
    expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(answer.tokens, device="cuda")[:, None])[:, 0]
    return (torch.tensor(answer.logprobs) - expected.cpu()).abs()


@pytest.mark.parametrize("shape", [TINY, QWEN3_0_6B], ids=lambda shape: shape.name)
async def test_engine_samples_from_the_model(make_shape: MakeShape, tmp_path: Path, shape: Shape) -> None:
    folder = make_shape(shape, 0)
    async with engine_of(folder, tmp_path / "engine.log") as engine:
        answer = await engine.generate(64)
    assert len(answer.tokens) == 64
    gaps = distances(folder, answer)
    record(f"logprob_distance_{shape.name}_mean", float(gaps.mean()))
    record(f"logprob_distance_{shape.name}_max", float(gaps.max()))
    assert gaps.mean() < 0.03
    assert gaps.max() < 0.3


async def test_paused_request_waits_and_then_ends(make_shape: MakeShape, tmp_path: Path) -> None:
    async with engine_of(make_shape(QWEN3_0_6B, 0), tmp_path / "engine.log") as engine:
        running = asyncio.create_task(engine.generate(LONG))
        await asyncio.sleep(0.5)
        await engine.client.pause("retract")
        assert not running.done(), "the request ended before the pause: nothing was tested; make it longer"
        waiting = asyncio.create_task(engine.generate(4))
        done, _ = await asyncio.wait([running, waiting], timeout=PAUSE_SECONDS + 20)
        assert not done
        await engine.client.resume()
        assert len((await running).tokens) == LONG
        assert len((await waiting).tokens) == 4


async def test_sleeping_engine_leaves_its_memory_to_others(make_shape: MakeShape, tmp_path: Path) -> None:
    async with engine_of(make_shape(QWEN3_0_6B, 0), tmp_path / "engine.log", share_gpu=True) as engine:
        await engine.generate(4)
        free_before, total = torch.cuda.mem_get_info()
        running = asyncio.create_task(engine.generate(LONG))
        await asyncio.sleep(0.2)
        await engine.client.sleep()  # in mid-generation
        free_while_released, _ = torch.cuda.mem_get_info()
        assert free_while_released - free_before > 0.25 * total
        assert not running.done()
        await engine.client.wake()
        free_after, _ = torch.cuda.mem_get_info()
        assert abs(free_after - free_before) < 0.02 * total
        running.cancel()
