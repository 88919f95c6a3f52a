"""Starting everything of an attempt, all at once.

Guarantees: training ranks, engines, router and rollout workers start together, because each spends most of its start
importing; `seconds` says how long after the driver's start each was ready; `close` ends all of them.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import ray
from swerl_api import JudgeSpec
from swerl_api.names import ENGINE_RESOURCE, JUDGE_RESOURCE
from swerl_trainer.driver import resources
from swerl_trainer.engines.fixed import FixedPool
from swerl_trainer.engines.handle import RayEngine
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.weights import update_backend
from swerl_trainer.job import Job
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.rollout.group import TaskCounts
from swerl_trainer.rollout.operations import RolloutWorker

if TYPE_CHECKING:
    from swerl_trainer.megatron.group import TrainGroup

logger = logging.getLogger(__name__)
T = TypeVar("T")

CLOSE_SECONDS = 6.0  # for each part to end, all at once; a Pod has 10 s from SIGTERM to SIGKILL


# From the router's address, a number and the address of the judge's router (None without a judge).
MakeWorker = Callable[[str, int, str | None], RolloutWorker]


class Placement:
    """Starts and ends the parts; they become usable one by one, so that sandboxes are declared while engines load."""

    engines_ready: asyncio.Task[None]
    tasks_ready: asyncio.Task[TaskCounts]
    group_ready: asyncio.Task[TrainGroup]
    judge_ready: asyncio.Task[None]

    def __init__(self, job: Job, http: aiohttp.ClientSession, began: float, *, make_worker: MakeWorker) -> None:
        self.began = began
        self.seconds: dict[str, float] = {}
        self.pool: EnginePool | None = None  # None when nothing is generated: supervised training without evaluation
        self.judge: FixedPool | None = None
        self.workers: list[RolloutWorker] = []
        self.group: TrainGroup | None = None
        self._job = job
        self._http = http
        self._make_worker = make_worker
        self._starting: list[asyncio.Task[Any]] = []

    def begin(self) -> None:
        """Ask Ray for every part; nothing is waited for."""
        if self.generates:
            if self._job.spec.judge is not None:
                self.judge = self._judges(self._job.spec.judge)
                self.judge_ready = self._timed("judge", self.judge.start())
            self.pool = self._engines()
            self.engines_ready = self._timed("engines", self.pool.start())
            self.tasks_ready = self._timed("workers", self._prepare_workers())
        self.group_ready = self._timed("train", self._train_group())

    @property
    def generates(self) -> bool:
        """Whether episodes will run at all."""
        return self._job.spec.algorithm.name != "sft" or self._job.spec.evaluation is not None

    async def close(self) -> None:
        """End every part that was started."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        ends = [worker.close() for worker in self.workers]
        ends += [part.close() for part in (self.pool, self.judge, self.group) if part is not None]
        await asyncio.gather(*(_within(end, CLOSE_SECONDS) for end in ends))

    def _engines(self) -> EnginePool:
        job, spec = self._job, self._job.spec
        server = resources.engine_server(job)
        sharers = spec.rollout.engines if server.share_gpu else 0
        handles = [
            RayEngine(server, number=i, log_folder=job.logs, resource=ENGINE_RESOURCE, sharers=sharers)
            for i in range(spec.rollout.engines)
        ]
        router = Router.on(
            ray.util.get_node_ip_address(),
            self._http,
            job.logs / "router.log",
            spec=spec.rollout.router,
        )
        backend = update_backend(gpus=server.gpus, share_gpu=server.share_gpu)
        return EnginePool(handles, router, self._http, ranks=max(1, server.gpus), backend=backend)

    def _judges(self, judge: JudgeSpec) -> FixedPool:
        server = resources.judge_server(self._job, judge)
        handles = [
            RayEngine(server, number=i, log_folder=self._job.logs, resource=JUDGE_RESOURCE, kind="judge")
            for i in range(judge.engines)
        ]
        router = Router.on(ray.util.get_node_ip_address(), self._http, self._job.logs / "judge-router.log")
        return FixedPool(handles, router, "judge")

    async def _prepare_workers(self) -> TaskCounts:
        assert self.pool is not None
        url, judge = self.pool.router.url, self.judge.router.url if self.judge else None
        self.workers = [self._make_worker(url, i, judge) for i in range(self._job.spec.rollout.workers)]
        return (await asyncio.gather(*(worker.prepare() for worker in self.workers)))[0]

    async def _train_group(self) -> TrainGroup:
        module = await asyncio.to_thread(importlib.import_module, "swerl_trainer.megatron.group")
        ranks, gpus = resources.training_ranks(self._job.spec)
        shares_gpu = self.pool is not None and resources.shares_gpus(self._job.spec)
        if shares_gpu and self.pool is not None:  # an engine sizes its cache by the memory that is free when it starts
            await asyncio.shield(self.engines_ready)
            await self.pool.sleep()
        group: TrainGroup = await module.TrainGroup.start(
            RankConfig.of(self._job.spec, str(self._job.paths.model)),
            ranks=ranks,
            gpus_per_rank=gpus,
            cpus_per_rank=0,
            shares_gpu=shares_gpu,
            environ=dict(self._job.spec.trainer.env),
        )
        self.group = group
        return group

    def _timed(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        async def run() -> T:
            result = await work
            self.seconds[name] = time.monotonic() - self.began
            logger.info("%s ready after %.1f s", name, self.seconds[name])
            return result

        task = asyncio.create_task(run(), name=name)
        self._starting.append(task)
        return task


async def _within(work: Coroutine[Any, Any, None], seconds: float) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except Exception as error:
        logger.warning("a part did not end cleanly: %r", error)
