"""One attempt from its job file to its end.

Guarantees: the job owns its folder before any component starts; all components start together and are closed, whatever
ends the attempt; sandboxes and the Lease are removed at the end; a lost Lease, a lost training rank or a newer attempt
ends this attempt with an error that names it.
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
from swerl_agent.episode import api_key_headers
from swerl_agent.sandbox.lease import LeaseKeeper
from swerl_api import API_VERSION
from swerl_kube import KubeClient, KubeError
from swerl_trainer.driver.components import AttemptComponents, WorkerFactory
from swerl_trainer.driver.event_poster import posting_events
from swerl_trainer.driver.ownership import take_ownership
from swerl_trainer.driver.sandbox_file import report_sandboxes
from swerl_trainer.driver.status import StatusReporter
from swerl_trainer.engines.api_key import api_key
from swerl_trainer.engines.client import engine_loads, fullest_cache
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.static_pool import StaticEnginePool
from swerl_trainer.job import Job
from swerl_trainer.process_log import ProcessLog
from swerl_trainer.rollout.actor import RayWorker
from swerl_trainer.rollout.cluster import owner_reference
from swerl_trainer.rollout.concurrency import AdaptiveConcurrency
from swerl_trainer.rollout.operations import RolloutWorker

if TYPE_CHECKING:
    from swerl_trainer.driver.training import Training

logger = logging.getLogger(__name__)

CLEANUP_SECONDS = 10.0  # for removing sandboxes at the end; the operator removes the others with the Lease
COUNTS_POLL = 1.0  # seconds between two readings of the workers' counts; the reporter writes less often


async def run_attempt(job: Job, *, began: float, kubeconfig: str | None = None, log: ProcessLog | None = None) -> None:
    """Train the job to its end, or raise the error that ends it. `began`: the process's start (time.monotonic); `log`:
    goes to the job's folder."""
    await asyncio.to_thread(take_ownership, job)
    if log is not None:
        await asyncio.to_thread(log.write_to, job.logs / "driver.log", job.log.formatter())
    keeper = lease_keeper(job, kubeconfig)
    keeper.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, keeper.stop)
        client = await stack.enter_async_context(KubeClient.from_environment(kubeconfig))
        stack.push_async_callback(_remove_sandboxes, client, job)
        await stack.enter_async_context(posting_events(client, job))
        http = await stack.enter_async_context(aiohttp.ClientSession(headers=api_key_headers(api_key())))
        components = AttemptComponents(job, http, began, make_worker=_ray_worker(job, kubeconfig))
        stack.push_async_callback(components.close)
        components.start()
        await asyncio.to_thread(keeper.wait_held)
        await _first_of(_train(job, components, StatusReporter(client, job)), asyncio.wrap_future(keeper.lost))


def _ray_worker(job: Job, kubeconfig: str | None) -> WorkerFactory:
    def make(router: str, number: int, judge: str | None) -> RolloutWorker:
        return cast(RolloutWorker, RayWorker(job, router, number, kubeconfig, judge=judge))

    return make


def lease_keeper(job: Job, kubeconfig: str | None) -> LeaseKeeper:
    """The keeper of the Lease that owns the attempt's sandboxes."""
    return LeaseKeeper(
        job.namespace,
        job.lease,
        holder=f"{job.lease}/{os.getpid()}",
        labels=job.labels,
        owner_refs=[owner_reference(job)] if job.uid else [],
        kubeconfig=kubeconfig,
    )


async def _train(job: Job, components: AttemptComponents, reporter: StatusReporter) -> None:
    """The training, concurrent with the tasks that wait for Pods, replace dead engines and report counts."""
    module = await asyncio.to_thread(importlib.import_module, "swerl_trainer.driver.training")  # imports torch
    training: Training = module.Training(job, components, reporter)
    async with asyncio.TaskGroup() as tasks:
        watchers = [tasks.create_task(_all_joined(components))]
        if components.judge is not None:
            watchers.append(tasks.create_task(_replace_judges(training, components.judge)))
        if components.pool is not None:
            watchers += [
                tasks.create_task(_replace_engines(training, components.pool)),
                tasks.create_task(_report_counts(training, reporter)),
                tasks.create_task(_report_sandboxes(training, job)),
                tasks.create_task(_adapt_concurrency(training, components.pool)),
            ]
        await training.run()
        for watcher in watchers:
            watcher.cancel()


async def _all_joined(components: AttemptComponents) -> None:
    await components.pods_joined


async def _replace_engines(training: Training, pool: EnginePool) -> None:
    await training.serving
    await pool.watch()


async def _replace_judges(training: Training, judge: StaticEnginePool) -> None:
    await training.serving
    await judge.watch()


async def _adapt_concurrency(training: Training, pool: EnginePool) -> None:
    runner = await training.runner

    async def usage() -> float | None:
        loads = await engine_loads(pool.clients())
        training.metrics.engines(loads)
        return fullest_cache(loads)

    await AdaptiveConcurrency(usage, runner.dispatcher.running, runner.limit_groups).watch()


async def _report_counts(training: Training, reporter: StatusReporter) -> None:
    runner = await training.runner
    while True:
        await reporter.counts(await runner.counts())
        await asyncio.sleep(COUNTS_POLL)


async def _report_sandboxes(training: Training, job: Job) -> None:
    await report_sandboxes(job, await training.runner)


async def _first_of(work: Coroutine[Any, Any, None], guard: asyncio.Future[None]) -> None:
    """Wait for the work; if the guard fails first, stop the work and raise the guard's error."""
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
    """Delete the remaining sandboxes of this attempt."""
    try:
        async with asyncio.timeout(CLEANUP_SECONDS):
            items = await client.list(API_VERSION, "swesandboxes", job.namespace, labels=job.selector)
            remaining = [item["metadata"]["name"] for item in items]
            deletions = (client.delete(API_VERSION, "swesandboxes", job.namespace, name) for name in remaining)
            await asyncio.gather(*deletions, return_exceptions=True)
    except (KubeError, TimeoutError) as error:
        logger.warning("cannot remove the sandboxes, the operator removes them with the Lease: %s", error)
