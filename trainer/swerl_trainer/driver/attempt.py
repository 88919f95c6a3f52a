"""One attempt from its job file to its end.

Guarantees: the job's folder is its own before any part starts; parts start together and end together, whatever ends the
attempt; sandboxes and the Lease are removed on the way out; a lost Lease, a lost training rank or a job that has moved
on ends the attempt with an error that says so.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from swerl_agent.sandbox.lease import LeaseKeeper
from swerl_api import API_VERSION
from swerl_kube import KubeClient, KubeError
from swerl_trainer.driver.ownership import claim
from swerl_trainer.driver.place import MakeWorker, Placement
from swerl_trainer.driver.status import StatusReporter
from swerl_trainer.engines.fixed import FixedPool
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.job import Job
from swerl_trainer.rollout.actor import RayWorker
from swerl_trainer.rollout.cluster import owner
from swerl_trainer.rollout.operations import RolloutWorker

if TYPE_CHECKING:
    from swerl_trainer.driver.training import Training

logger = logging.getLogger(__name__)

LEFTOVER_SECONDS = 10.0  # for removing sandboxes on the way out; what stays goes with the Lease
COUNTS_POLL = 1.0  # seconds between two looks at the workers' counts; the reporter writes less often


async def run_attempt(job: Job, *, began: float, kubeconfig: str | None = None) -> None:
    """Train the job to its end. Raises what ended it early; `began` is the process's start (time.monotonic)."""
    await asyncio.to_thread(claim, job)
    keeper = lease_keeper(job, kubeconfig)
    keeper.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, keeper.stop)
        client = await stack.enter_async_context(KubeClient.from_environment(kubeconfig))
        stack.push_async_callback(_remove_sandboxes, client, job)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        placement = Placement(job, http, began, make_worker=_ray_worker(job, kubeconfig))
        stack.push_async_callback(placement.close)
        placement.begin()
        await asyncio.to_thread(keeper.wait_held)
        await _first_of(_train(job, placement, StatusReporter(client, job)), asyncio.wrap_future(keeper.lost))


def _ray_worker(job: Job, kubeconfig: str | None) -> MakeWorker:
    def make(router: str, number: int, judge: str | None) -> RolloutWorker:
        return cast(RolloutWorker, RayWorker(job, router, number, kubeconfig, judge=judge))

    return make


def lease_keeper(job: Job, kubeconfig: str | None) -> LeaseKeeper:
    """The keeper of the Lease that the attempt's sandboxes name."""
    return LeaseKeeper(
        job.namespace,
        job.lease,
        holder=f"{job.lease}/{os.getpid()}",
        labels=job.labels,
        owner_refs=[owner(job)] if job.uid else [],
        kubeconfig=kubeconfig,
    )


async def _train(job: Job, placement: Placement, reporter: StatusReporter) -> None:
    """The training, with those who watch over it."""
    module = await asyncio.to_thread(importlib.import_module, "swerl_trainer.driver.training")  # imports torch
    training: Training = module.Training(job, placement, reporter)
    async with asyncio.TaskGroup() as tasks:
        watchers = []
        if placement.judge is not None:
            watchers.append(tasks.create_task(_replace_judges(training, placement.judge)))
        if placement.pool is not None:
            watchers += [
                tasks.create_task(_replace_engines(training, placement.pool)),
                tasks.create_task(_tell_counts(training, reporter)),
            ]
        await training.run()
        for watcher in watchers:
            watcher.cancel()


async def _replace_engines(training: Training, pool: EnginePool) -> None:
    await training.serving
    await pool.watch()


async def _replace_judges(training: Training, judge: FixedPool) -> None:
    await training.serving
    await judge.watch()


async def _tell_counts(training: Training, reporter: StatusReporter) -> None:
    runner = await training.runner
    while True:
        await reporter.counts(await runner.counts())
        await asyncio.sleep(COUNTS_POLL)


async def _first_of(work: Coroutine[Any, Any, None], guard: asyncio.Future[None]) -> None:
    """Wait for the work; when the guard fails first, stop the work and raise the guard's error."""
    task = asyncio.create_task(work, name="training")
    try:
        await asyncio.wait([task, guard], return_when=asyncio.FIRST_COMPLETED)
        if guard.done():
            guard.result()
    finally:
        guard.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    task.result()


async def _remove_sandboxes(client: KubeClient, job: Job) -> None:
    """Delete what is left of this attempt's sandboxes."""
    try:
        async with asyncio.timeout(LEFTOVER_SECONDS):
            found = await client.list(API_VERSION, "swesandboxes", job.namespace, labels=job.selector)
            left = [item["metadata"]["name"] for item in found]
            deletions = (client.delete(API_VERSION, "swesandboxes", job.namespace, name) for name in left)
            await asyncio.gather(*deletions, return_exceptions=True)
    except (KubeError, TimeoutError) as error:
        logger.warning("sandboxes left to the Lease: %s", error)
