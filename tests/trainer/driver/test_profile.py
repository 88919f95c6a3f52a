"""The annotation swerl.dev/profile of a job, from the API server to the call of the training ranks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from swerl_api.names import PROFILE_ANNOTATION
from swerl_kube import ClusterConfig, Credentials, KubeClient
from swerl_trainer.algorithm import Batch
from swerl_trainer.driver.loop import LoopDependencies, TrainingLoop
from swerl_trainer.driver.state import TrainingState
from swerl_trainer.driver.status import StatusReporter
from swerl_trainer.job import Job
from swerl_trainer.rollout.group import StepGroups

from .test_turns import MakeJob, Recorder


class TracedRanks:
    """Ranks that train nothing; keeps the order of calls and the folder of a trace."""

    size = 1

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def trace_next_step(self, folder: Path) -> None:
        self.calls.append(f"trace into {folder}")

    async def train_step(self, batch: Batch) -> dict[str, float]:
        self.calls.append("train")
        return {}


@asynccontextmanager
async def served(job: Job, annotations: dict[str, str]) -> AsyncIterator[KubeClient]:
    """A client of a server over HTTP that has the job with these annotations."""
    body: dict[str, Any] = {"metadata": {"name": job.name, "uid": job.uid, "annotations": annotations}}

    async def answer(request: web.Request) -> web.Response:
        assert request.path.split("/")[5:8] == [job.namespace, "swerljobs", job.name]
        return web.json_response(body)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server:
        config = ClusterConfig(str(server.make_url("")).rstrip("/"), job.namespace, None, Credentials())
        async with KubeClient(config) as client:
            yield client


@pytest.mark.parametrize(
    ("value", "traced"),
    [("step=3", True), (" step = 3 ", True), ("step=4", False), ("step=33", False), ("3", False), (None, False)],
)
async def test_step_of_the_annotation_is_traced(make_job: MakeJob, value: str | None, traced: bool) -> None:
    job, ranks = make_job(), TracedRanks()
    other: Any = Recorder()
    async with served(job, {} if value is None else {PROFILE_ANNOTATION: value}) as client:
        reporter = StatusReporter(client, job)
        assert not reporter.traces(3), "nothing is known before the first write"
        await reporter.step(step=2, steps=9)
        dependencies = LoopDependencies(
            job.spec, other, other, other, other, other, reporter, TrainingState(step=2), asyncio.Lock()
        )
        dependencies.profiles = Path("/runs/demo/profile")
        loop = TrainingLoop(dependencies)
        loop.group = ranks  # type: ignore[assignment]
        await loop._train(StepGroups((), ()))
    assert ranks.calls == (["trace into /runs/demo/profile/step-3"] if traced else []) + ["train"]
