"""The driver's handle on a rollout worker that runs in a Ray actor."""

from __future__ import annotations

from typing import Any

import pytest
from ray.exceptions import RayActorError
from swerl_trainer.rollout.actor import RayWorker

from .conftest import MEMBERS, REQUEST


class Remote:
    """A method of a Ray actor."""

    def __init__(self, calls: list[tuple[Any, ...]], name: str, *, lost: bool) -> None:
        self.calls, self.name, self.lost = calls, name, lost

    async def remote(self, *arguments: Any) -> Any:
        self.calls.append((self.name, *arguments))
        if self.lost:
            raise RayActorError
        return "result"


class FakeActor:
    def __init__(self, calls: list[tuple[Any, ...]], *, lost: bool) -> None:
        self.call = Remote(calls, "call", lost=lost)
        self.prepare = Remote(calls, "prepare", lost=lost)


class FakeRayWorker(RayWorker):
    """The first actor is lost, the next ones answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.actors = 0
        super().__init__(None, "http://router", 0)  # type: ignore[arg-type]

    def _create(self) -> Any:
        self.actors += 1
        return FakeActor(self.calls, lost=self.actors == 1)


async def test_lost_actor_is_replaced_before_the_next_call() -> None:
    worker = FakeRayWorker()
    with pytest.raises(RayActorError):
        await worker.run_episode(REQUEST, MEMBERS, 0, 0)
    assert await worker.run_episode(REQUEST, MEMBERS, 0, 0) == "result"
    assert worker.calls == [("call", "run_episode", REQUEST, MEMBERS, 0, 0)] * 2
    assert worker.actors == 2


async def test_preparation_is_a_call_of_the_actor_itself() -> None:
    worker = FakeRayWorker()
    worker._actor = worker._create()
    await worker.prepare()
    assert worker.calls == [("prepare",)]
