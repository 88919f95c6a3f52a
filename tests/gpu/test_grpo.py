"""GRPO on one GPU: engine and training rank take turns, and the reward rises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_api import AlgorithmSpec, TrainerSpec
from swerl_trainer.algorithm import TrainingSample, policy_batch
from swerl_trainer.engines.links import CudaIpcLink
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.trainer import MegatronTrainer

from tests.gpu.record import record
from tests.gpu.serving import PROMPT, Answer, Engine, engine_of
from tests.gpu.shapes import QWEN3_0_6B
from tests.gpu.sharing import OneRank
from tests.ports import free_port

if TYPE_CHECKING:
    from tests.gpu.conftest import MakeShape

STEPS, GROUPS, GROUP_SIZE, NEW_TOKENS = 3, 4, 8, 48
MISMATCH = 0.01  # bound of KL(engine || trainer), both in bfloat16 with kernels of their own
ALGORITHM = AlgorithmSpec(lr=1e-4, weight_decay=0.0)


@pytest.fixture
def model(make_shape: MakeShape) -> Path:
    return make_shape(QWEN3_0_6B, 0)


@pytest.fixture
def trainer(model: Path) -> Iterator[MegatronTrainer]:
    config = RankConfig(str(model), "bfloat16", TrainerSpec(image="trainer"), ALGORITHM)
    rank = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
    yield rank
    rank.close()


def reward(answer: Answer) -> float:
    """Share of tokens from the first half of the vocabulary: any model can learn it."""
    return sum(token < QWEN3_0_6B.vocabulary // 2 for token in answer.tokens) / len(answer.tokens)


async def rollouts(engine: Engine) -> list[tuple[int, list[int], Answer]]:
    """(group, prompt, answer) of one step."""
    prompts = [(group, [*PROMPT, 1000 + group]) for group in range(GROUPS) for _ in range(GROUP_SIZE)]
    answers = await asyncio.gather(*(engine.generate(NEW_TOKENS, prompt=prompt) for _, prompt in prompts))
    return [(group, prompt, answer) for (group, prompt), answer in zip(prompts, answers, strict=True)]


def training_sample(group: int, prompt: list[int], answer: Answer, index: int) -> TrainingSample:
    before = len(prompt)
    mask = [0] * before + [1] * NEW_TOKENS
    logprobs = [0.0] * before + answer.logprobs
    return TrainingSample(prompt + answer.tokens, mask, logprobs, reward(answer), True, f"g{group}", index, "task")


async def test_reward_rises_over_three_steps(model: Path, trainer: MegatronTrainer, tmp_path: Path) -> None:
    means = []
    async with engine_of(model, tmp_path / "engine.log", share_gpu=True) as engine:
        link = CudaIpcLink(OneRank(trainer), [engine.client])  # type: ignore[arg-type]
        for step in range(STEPS + 1):
            await link.send(step)
            sampled = await rollouts(engine)
            assert {answer.version for _, _, answer in sampled} == {str(step)}
            means.append(sum(reward(answer) for _, _, answer in sampled) / len(sampled))
            samples = [training_sample(*rollout, index=i % GROUP_SIZE) for i, rollout in enumerate(sampled)]
            await engine.client.sleep()
            figures = await asyncio.to_thread(trainer.train_step, policy_batch(samples, ALGORITHM))
            record(f"reward_of_step_{step + 1}", means[-1])
            record(f"mismatch_kl_of_step_{step + 1}", figures["mismatch_kl"])
            assert abs(figures["mismatch_kl"]) < MISMATCH
            trainer.release_memory()
            await engine.client.wake()
    assert means[-1] > means[0] + 0.05, means
