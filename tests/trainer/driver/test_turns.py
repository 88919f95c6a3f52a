"""Engines and training ranks on the same GPUs take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from swerl_trainer.driver.loop import LoopDependencies, TrainingLoop
from swerl_trainer.driver.state import TrainingState
from swerl_trainer.job import Job
from swerl_trainer.rollout.group import StepGroups

MakeJob = Callable[..., Job]
GPU_JOB = {"trainer": {"image": "i", "gpus": 2}, "rollout": {"gpusPerEngine": 2}}


class Recorder:
    """Pool, ranks, runner and dispatcher in one: remembers who was asked what, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.changed: list[bool] = []  # by the updates reported to the dispatcher
        self.dispatcher = self
        self.position = 0

    def __getattr__(self, name: str) -> Any:
        async def call(*_: Any) -> dict[str, float]:
            self.calls.append(name)
            return {}

        return call

    def drain(self) -> None:
        self.calls.append("drain")

    def traces(self, step: int) -> bool:
        return False

    def updated(self, version: int, *, changed: bool = True) -> None:
        self.changed.append(changed)

    def pending(self) -> list[int]:
        return []

    def complete_groups(self) -> list[Any]:
        return []

    def dispatch(self) -> None: ...


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def make_loop(job: Job, recorder: Any, *, colocate: bool) -> TrainingLoop:
    spec = job.spec.model_copy(update={"colocate": colocate})
    dependencies = LoopDependencies(
        spec, recorder, recorder, recorder, recorder, recorder, recorder, TrainingState(), asyncio.Lock()
    )
    loop = TrainingLoop(dependencies)
    loop.group = recorder
    return loop


async def test_engines_are_drained_and_asleep_while_ranks_train(make_job: MakeJob, recorder: Recorder) -> None:
    loop = make_loop(make_job(**GPU_JOB), recorder, colocate=True)
    await loop._train(StepGroups((), ()))
    await loop.update_weights(1)
    assert recorder.calls == [
        *("drain", "wait_until_updatable", "sleep", "train_step", "release_memory"),
        *("drain", "wait_until_updatable", "update_weights"),
    ]


async def test_engines_with_their_own_gpus_go_on_while_ranks_train(make_job: MakeJob, recorder: Recorder) -> None:
    loop = make_loop(make_job(**GPU_JOB), recorder, colocate=False)
    await loop._train(StepGroups((), ()))
    assert recorder.calls == ["train_step"]


@pytest.mark.parametrize("changed", [False, True])
async def test_weights_are_sent_only_when_they_changed(make_job: MakeJob, recorder: Recorder, changed: bool) -> None:
    loop = make_loop(make_job(**GPU_JOB), recorder, colocate=False)
    state = loop._deps.state
    for step in (1, 2):
        state.step = step
        await loop._after_updates(changed=changed)
    assert ("update_weights" in recorder.calls) is changed
    assert recorder.changed == [changed, changed], "the dispatcher counts what the metrics count"
    assert (state.unchanged, state.without_signal) == (([], 0) if changed else ([1, 2], 2))


async def test_engines_that_share_gpus_get_the_weights_to_wake_up(make_job: MakeJob, recorder: Recorder) -> None:
    loop = make_loop(make_job(**GPU_JOB), recorder, colocate=True)
    await loop._after_updates(changed=False)
    assert "update_weights" in recorder.calls
    assert recorder.changed == [False], "weights that are sent again are the same"
