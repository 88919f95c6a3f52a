"""The components of an attempt: training ranks, engines, routers and rollout workers.

Guarantees: all start together, because each spends most of its start importing; `seconds` holds how long after the
driver's start each was ready; `close` ends all of them.
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
from swerl_trainer.checkpoints import MARKER
from swerl_trainer.driver import resources
from swerl_trainer.engines.handle import RayEngine
from swerl_trainer.engines.links import update_backend
from swerl_trainer.engines.pool import PROBE_PAUSE, EnginePool
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.static_pool import StaticEnginePool
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.job import Job
from swerl_trainer.joining import PodJoining, expected_pods
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.rollout.group import TaskCounts
from swerl_trainer.rollout.operations import RolloutWorker

if TYPE_CHECKING:
    from swerl_trainer.megatron.group import TrainGroup

logger = logging.getLogger(__name__)
T = TypeVar("T")

CLOSE_SECONDS = 6.0  # for all components to end together; a Pod has 10 s from SIGTERM to SIGKILL


# Arguments: the router's address, the worker's number, the address of the judge's router (None without a judge).
WorkerFactory = Callable[[str, int, str | None], RolloutWorker]


class AttemptComponents:
    """Starts and ends the components; each is usable when it is ready, so sandboxes are declared while engines load."""

    engines_ready: asyncio.Task[None]
    tasks_ready: asyncio.Task[TaskCounts]
    group_ready: asyncio.Task[TrainGroup]
    judge_ready: asyncio.Task[None]
    pods_joined: asyncio.Task[None]

    def __init__(self, job: Job, http: aiohttp.ClientSession, began: float, *, make_worker: WorkerFactory) -> None:
        self.began = began
        self.seconds: dict[str, float] = {}
        self.pool: EnginePool | None = None  # None for supervised training without evaluation
        self.judge: StaticEnginePool | None = None
        self.workers: list[RolloutWorker] = []
        self.group: TrainGroup | None = None
        self._job = job
        self._http = http
        self._make_worker = make_worker
        self._starting: list[asyncio.Task[Any]] = []
        expected = expected_pods(job.spec, generates=self.generates)
        self._joining = PodJoining(expected, job.spec.trainer.join_timeout_seconds, ray.nodes)

    def start(self) -> None:
        """Request every component from Ray, without waiting for any."""
        self.pods_joined = self._timed("pods", self._joining.watch())
        if self.generates:
            if self._job.spec.judge is not None:
                self.judge = self._judges(self._job.spec.judge)
                self.judge_ready = self._timed("judge", self.judge.start())
            self.pool = self._engines()
            self.engines_ready = self._timed(
                "engines", self.pool.start(self._engines_joined, reads_model=not self._resumes)
            )
            self.tasks_ready = self._timed("workers", self._prepare_workers())
        self.group_ready = self._timed("train", self._train_group())

    @property
    def generates(self) -> bool:
        """Whether the attempt runs episodes."""
        return self._job.spec.algorithm.name != "sft" or self._job.spec.evaluation is not None

    @property
    def _resumes(self) -> bool:
        """Whether the ranks are going to load a checkpoint of this volume, unless all are damaged."""
        job = self._job
        return job.spec.checkpoint.resume != "never" and any(job.checkpoints.glob(f"step-*/{MARKER}"))

    async def close(self) -> None:
        """End every component that was started."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        closing = [worker.close() for worker in self.workers]
        closing += [component.close() for component in (self.pool, self.judge, self.group) if component is not None]
        await asyncio.gather(*(_within(each, CLOSE_SECONDS) for each in closing))

    def _engines(self) -> EnginePool:
        job, spec = self._job, self._job.spec
        server = resources.engine_server(job)
        colocated_engines = spec.rollout.engines if server.share_gpu else 0
        handles = [
            RayEngine(
                server, number=i, log_folder=job.logs, resource=ENGINE_RESOURCE, colocated_engines=colocated_engines
            )
            for i in range(spec.rollout.engines)
        ]
        router = Router.on(
            ray.util.get_node_ip_address(),
            self._http,
            job.logs / "router.log",
            spec=spec.rollout.router,
            log_settings=job.log,
        )
        return EnginePool(
            handles,
            router,
            self._http,
            ranks=max(1, server.gpus),
            backend=update_backend(server, spec.rollout.weight_update),
            folder=job.folder / ("adapter" if server.lora else "weights"),
            keep_cache=spec.rollout.keep_cache,
            probe_seconds=float(spec.rollout.probe_seconds),
            probe_pause=min(PROBE_PAUSE, float(spec.rollout.probe_seconds)),
            needs_model=spec.model.lora is not None,
            check=WeightCheck(server.expert_ranks),
        )

    async def _engines_joined(self, engines: int) -> None:
        """Return when Pods for `engines` engines have joined; engines that share GPUs are placed together."""
        rollout = self._job.spec.rollout
        await self._joining.joined(ENGINE_RESOURCE, rollout.engines if self._job.spec.colocate else engines)

    def _judges(self, judge: JudgeSpec) -> StaticEnginePool:
        server = resources.judge_server(self._job, judge)
        handles = [
            RayEngine(server, number=i, log_folder=self._job.logs, resource=JUDGE_RESOURCE, kind="judge")
            for i in range(judge.engines)
        ]
        address, log = ray.util.get_node_ip_address(), self._job.logs / "judge-router.log"
        router = Router.on(address, self._http, log, log_settings=self._job.log)
        return StaticEnginePool(handles, router, self._http, "judge")

    async def _prepare_workers(self) -> TaskCounts:
        assert self.pool is not None
        url, judge = self.pool.router.url, self.judge.router.url if self.judge else None
        self.workers = [self._make_worker(url, i, judge) for i in range(self._job.spec.rollout.workers)]
        return (await asyncio.gather(*(worker.prepare() for worker in self.workers)))[0]

    async def _train_group(self) -> TrainGroup:
        module = await asyncio.to_thread(importlib.import_module, "swerl_trainer.megatron.group")
        ranks, gpus = resources.training_ranks(self._job.spec)
        shares_gpu = self.pool is not None and resources.shares_gpus(self._job.spec)
        if shares_gpu and self.pool is not None:  # an engine sizes its cache by the free memory at its start
            await asyncio.shield(self.engines_ready)
            await self.pool.sleep()
        group: TrainGroup = await module.TrainGroup.start(
            RankConfig.of(self._job.spec, str(self._job.paths.model), str(self._job.logs), self._job.log),
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
        logger.warning("a component did not close cleanly: %r", error)
