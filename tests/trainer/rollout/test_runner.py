"""When no group comes to an end any more, the runner says why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from swerl_agent.episode import PromptError
from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.dispatcher import Dispatcher, DispatchSettings
from swerl_trainer.rollout.group import GroupOrder, Rollout
from swerl_trainer.rollout.runner import RolloutsFailed, Runner


@dataclass
class Failing:
    """A worker whose episodes all end with one error."""

    code: str
    error: str

    async def declare(self, order: GroupOrder, members: tuple[int, ...], attempt: int) -> None: ...

    async def act(self, order: GroupOrder, members: tuple[int, ...], index: int, attempt: int) -> None: ...

    async def rollout(self, order: GroupOrder, index: int, attempt: int) -> Rollout:
        await asyncio.sleep(0)
        return Rollout(order.id, index, "t-1", valid=False, error=self.error, error_code=self.code)


async def step(code: str, error: str) -> None:
    """A step whose every episode ends so."""

    async def serving() -> None: ...

    settings = DispatchSettings(steps=2, prompts_per_step=2, group_size=2, redo_limit=1)
    runner = Runner(Dispatcher(settings, TaskOrder(4, seed=1)), [Failing(code, error)], serving=serving)  # type: ignore[list-item]
    try:
        async with asyncio.timeout(20):
            await runner.step()
    finally:
        await runner.close()


async def test_prompts_that_render_nowhere_end_the_job_for_good() -> None:
    text = "agent.instance_template does not render: UndefinedError: 'x' is undefined, in line 2: {{ x }}"
    with pytest.raises(PromptError, match=rf"a template ended every group lately, for example g\d of task t-1: {text}"):
        await step("prompt_failed", text)


async def test_a_broken_cluster_ends_the_attempt() -> None:
    with pytest.raises(RolloutsFailed, match=r"infrastructure ended every group lately, .* pod_evicted: full"):
        await step("pod_evicted", "full")
