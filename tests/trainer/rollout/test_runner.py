"""When no group comes to an end any more, the runner says why; when it is closed, nothing stays open."""

from __future__ import annotations

import asyncio
import gc
import warnings
from dataclasses import dataclass

import pytest
from swerl_agent.episode import PromptError
from swerl_agent.sandbox import NodeCounts
from swerl_agent.tasks import TaskError
from swerl_trainer.metrics.driver_metrics import DriverMetrics
from swerl_trainer.rollout.errors import RolloutsFailed, TaskImagesMissing
from swerl_trainer.rollout.group import GroupRequest, Rollout
from swerl_trainer.rollout.runner import RolloutRunner

from .dispatching import dispatcher


@dataclass
class FailingWorker:
    """A worker whose episodes all end with one error, but for those of the group `other`."""

    code: str
    error: str
    other: str = ""
    other_code: str = ""  # "": they end well, the first of them resolved

    async def declare(self, request: GroupRequest, members: tuple[int, ...], retry: int) -> None: ...

    async def run_episode(self, request: GroupRequest, members: tuple[int, ...], index: int, retry: int) -> None: ...

    async def rollout(self, request: GroupRequest, index: int, retry: int) -> Rollout:
        await asyncio.sleep(0)
        if request.id == self.other and not self.other_code:
            return Rollout(request.id, index, "t-2", valid=True, reward=float(index == 0))
        code = self.other_code if request.id == self.other else self.code
        return Rollout(request.id, index, "t-1", valid=False, error=self.error, error_code=code)


def runner_of(worker: FailingWorker) -> RolloutRunner:
    async def serving() -> None: ...

    state, metrics = dispatcher(tasks=4, retries=1), DriverMetrics("demo", {})
    return RolloutRunner(state, [worker], serving=serving, metrics=metrics)  # type: ignore[list-item]


async def step(code: str, error: str, *, other: str = "", other_code: str = "") -> None:
    """A step whose every episode ends so, but for those of the group `other`."""
    runner = runner_of(FailingWorker(code, error, other, other_code))
    try:
        async with asyncio.timeout(20):
            await runner.step()
    finally:
        await runner.close()


async def test_closing_leaves_no_call_open_that_never_began() -> None:
    runner = runner_of(FailingWorker("pod_evicted", "full"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runner.dispatch()
        await runner.close()
        gc.collect()
    assert not caught


@dataclass
class Seeing:
    """A worker that sees these sandboxes; None: it is lost."""

    seen: NodeCounts | None

    async def sandboxes_by_node(self) -> NodeCounts:
        if self.seen is None:
            raise RuntimeError("the actor died")
        return self.seen


async def test_sandboxes_are_those_that_the_first_worker_sees() -> None:
    async def serving() -> None: ...

    workers = [Seeing(None), Seeing({}), Seeing({"node-1": {"ready": 2}}), Seeing({"node-1": {"ready": 1}})]
    state, metrics = dispatcher(tasks=4, retries=1), DriverMetrics("demo", {})
    runner = RolloutRunner(state, workers, serving=serving, metrics=metrics)  # type: ignore[arg-type]
    assert await runner.sandboxes_by_node() == {"node-1": {"ready": 2}}
    await runner.close()


async def test_prompts_that_never_render_fail_the_job() -> None:
    text = "agent.instance_template does not render: UndefinedError: 'x' is undefined, in line 2: {{ x }}"
    with pytest.raises(
        PromptError, match=rf"a prompt template failed in every recent group, for example g\d of task t-1: {text}"
    ):
        await step("prompt_failed", text)


async def test_broken_cluster_ends_the_attempt() -> None:
    with pytest.raises(RolloutsFailed, match=r"infrastructure ended every recent group, .* pod_evicted: full"):
        await step("pod_evicted", "full")


UNPULLED = "ImagePullFailed: SweSandbox ns/g ended: ImagePullFailed image no/such-image:1 cannot be used"


async def test_tasks_without_pullable_images_fail_the_job_with_the_remedy() -> None:
    with pytest.raises(TaskImagesMissing, match=r"push the images, .* task t-1: .* image no/such-image:1 ") as caught:
        await step("image_pull_failed", UNPULLED)
    assert "spec.sandbox.registryRewrite" in str(caught.value) and "spec.sandbox.pullSecrets" in str(caught.value)


@pytest.mark.parametrize("code", ["", "pod_evicted"])
async def test_image_failures_with_other_failures_end_only_the_attempt(code: str) -> None:
    with pytest.raises(RolloutsFailed, match=r"infrastructure ended every recent group") as caught:
        await step("image_pull_failed", UNPULLED, other="g1", other_code=code)
    assert not isinstance(caught.value, TaskImagesMissing)


async def test_images_without_a_repository_fail_the_job() -> None:
    text = "NoRepository: the image x has no git repository at /testbed"
    with pytest.raises(TaskError, match=rf"no patch can be taken in any task's image, .* task t-1: {text}"):
        await step("no_repository", text)
    with pytest.raises(RolloutsFailed, match=rf"infrastructure ended every recent group, .* no_repository: {text}"):
        await step("no_repository", text, other="g1", other_code="pod_evicted")
