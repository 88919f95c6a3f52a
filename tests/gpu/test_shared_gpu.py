"""A training rank and an engine on one GPU take turns, and the engine has the rank's weights."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import torch
from swerl_api import AlgorithmSpec, TrainerSpec
from swerl_trainer.algorithm import TrainingSample, demonstration_batch
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

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOLERANCE = 0.03  # mean |trainer - engine| log-probability, both in bfloat16 with kernels of their own


class SharedGPU:
    """An engine and a rank that hold different models at first."""

    def __init__(self, engine: Engine, trainer: MegatronTrainer) -> None:
        self.engine = engine
        self.trainer = trainer
        self.link = CudaIpcLink(OneRank(trainer), [engine.client])  # type: ignore[arg-type]

    async def answer(self) -> Answer:
        return await self.engine.generate(64)

    def distance(self, answer: Answer) -> float:
        """Mean |trainer - engine| log-probability."""
        batch = demonstration_batch([sample_of(answer)])
        own_logprobs = self.trainer.log_probs(batch)[0][len(PROMPT) :]
        return float((own_logprobs - torch.tensor(answer.logprobs)).abs().mean())


def sample_of(answer: Answer) -> TrainingSample:
    tokens = PROMPT + answer.tokens
    mask = [0] * len(PROMPT) + [1] * len(answer.tokens)
    return TrainingSample(tokens, mask, [0.0] * len(PROMPT) + answer.logprobs, 1.0, True, "g", 0, "task")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(make_shape: MakeShape, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGPU]:
    log = tmp_path_factory.mktemp("logs") / "engine.log"
    trainer_shape, engine_shape = make_shape(QWEN3_0_6B, 1), make_shape(QWEN3_0_6B, 0)
    async with engine_of(engine_shape, log, share_gpu=True) as engine:
        config = RankConfig(
            str(trainer_shape), "bfloat16", TrainerSpec(image="trainer"), AlgorithmSpec(lr=1e-4, weight_decay=0.0)
        )
        trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
        yield SharedGPU(engine, trainer)
        trainer.close()


async def test_engine_reads_the_ranks_weights_in_place(shared: SharedGPU) -> None:
    assert shared.distance(await shared.answer()) > TOLERANCE
    await shared.link.send(1)
    answer = await shared.answer()
    assert answer.version == "1"
    distance = shared.distance(answer)
    record("logprob_distance_of_shared_weights_mean", distance)
    assert distance < TOLERANCE


async def test_engine_sleeps_during_training_and_wakes_with_new_weights(shared: SharedGPU) -> None:
    await shared.link.send(2)
    old = await shared.answer()
    batch = demonstration_batch([sample_of(old)])
    await shared.engine.client.sleep()
    losses = [shared.trainer.train_step(batch)["loss"] for _ in range(5)]
    allocated = torch.cuda.memory_allocated()
    shared.trainer.release_memory()
    assert allocated - torch.cuda.memory_allocated() > 2 * QWEN3_0_6B.parameters  # float32 gradients are gone
    assert losses[-1] < losses[0]
    await shared.engine.client.wake()
    await shared.link.send(3)
    new = await shared.answer()
    assert new.version == "3"
    assert shared.distance(new) < TOLERANCE
    assert shared.distance(old) > TOLERANCE  # what the old weights said is no longer what the rank says
    assert shared.trainer.train_step(batch)["loss"] < losses[0]  # gradients come back for the next step
