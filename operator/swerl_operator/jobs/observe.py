"""Reads exactly what the decision about a job depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from swerl_api import JobCondition, SweRLJobStatus, is_condition_true
from swerl_kube import Json, KubeClient
from swerl_plan import Models, read_models_text
from swerl_plan.capacity import nodes_are_final

from ..checks.capacity import apply_capacity_check, cluster_capacity_problem
from ..checks.episode_capacity import episode_capacity_problems
from ..checks.layout import layout_problem
from ..checks.preflight import Preflight, read_preflight
from ..checks.prerequisites import image_set_problem
from ..checks.volumes import volume_problems
from ..context import Settings
from ..owned import find_owned
from ..problem import Problem
from ..ray.cleanup import count_leftovers
from ..ray.cluster import RAY_API
from ..ray.credentials import CredentialSource
from ..ray.jobs import UNREACHABLE, DriverState, RayHead, RayJobs, UnreachableTimer
from ..ray.pods import head_address
from ..status_builder import is_finished
from .attempt import Attempt, attempts_selector
from .manifests import attempt_preflight, cluster_plan
from .prerequisites import missing_prerequisites, references


@dataclass(frozen=True)
class JobObservation:
    """The state of the cluster for one job. None means: not read, because the decision does not need it."""

    now: datetime
    submission: str = ""  # id of the current attempt's driver
    retry_requested: bool = False  # of the current attempt, which failed the job
    leftovers: int = 0  # clusters, Pods, sandboxes, grading Jobs of other attempts (of any, once the job is over)
    prerequisite_problems: Sequence[Problem] | None = None
    capacity_problem: Problem | None = None
    image_set_problem: Problem | None = None  # of the SweImageSet the job waits for
    preflight: Preflight | None = None
    cluster: Json | None = None
    pods: Sequence[Json] = field(default_factory=tuple)  # Ray Pods of the current attempt
    driver: DriverState | None = None
    unreachable_seconds: float = 0.0  # since Ray last answered


class JobObserver:
    """Reads the state of the cluster for one job at a time."""

    def __init__(self, api: KubeClient, ray: RayJobs, credentials: CredentialSource, settings: Settings) -> None:
        self._api = api
        self._ray = ray
        self._credentials = credentials
        self._settings = settings
        self._unreachable = UnreachableTimer()

    async def observe(self, attempt: Attempt, status: SweRLJobStatus) -> JobObservation:
        """The state now; it reads only what the decision needs in this phase."""
        now = datetime.now(UTC)
        if is_finished(status) or attempt.spec.suspend:
            leftovers = await count_leftovers(self._api, attempt.namespace, attempts_selector(attempt.job))
            return JobObservation(now, leftovers=leftovers, retry_requested=attempt.retry_of == str(attempt.number))
        if attempt.number == 0 or is_condition_true(status.conditions, JobCondition.SUSPENDED):
            return JobObservation(now)
        cluster = await find_owned(self._api, RAY_API, "rayclusters", attempt.namespace, attempt.name, attempt.uid)
        if cluster is None:
            return await self._observe_start(attempt, now)
        pods = await self._api.list("v1", "pods", attempt.namespace, labels=attempt.ray_pods_selector)
        driver = await self._driver(attempt, pods)
        unreachable = self._unreachable.seconds(attempt.submission, answers=driver.phase != "unreachable")
        return JobObservation(
            now, attempt.submission, cluster=cluster, pods=pods, driver=driver, unreachable_seconds=unreachable
        )

    async def _observe_start(self, attempt: Attempt, now: datetime) -> JobObservation:
        pod = await find_owned(self._api, "v1", "pods", attempt.namespace, attempt.preflight_name, attempt.uid)
        others = attempts_selector(attempt.job, without=attempt.number)
        preflight = read_preflight(pod, attempt_preflight(attempt)) if pod is not None else None
        downloaded = read_models_text(preflight.message) if preflight and preflight.message else None
        return JobObservation(
            now,
            leftovers=await count_leftovers(self._api, attempt.namespace, others),
            prerequisite_problems=await missing_prerequisites(self._api, attempt, self._settings),
            capacity_problem=await self._capacity_problem(attempt, downloaded),
            image_set_problem=await image_set_problem(self._api, attempt.namespace, attempt.spec.sandbox),
            preflight=preflight,
        )

    async def _capacity_problem(self, attempt: Attempt, downloaded: Models | None) -> Problem | None:
        settings, spec = self._settings, attempt.spec
        checked = settings.capacity_check != "off"
        nodes = await self._api.list("v1", "nodes", None) if checked else []
        final = nodes if nodes_are_final(settings.capacity_check, nodes) else []
        # In a thread: the search for a layout that fits may take a second, and the event loop renews the Lease.
        found = [await asyncio.to_thread(layout_problem, spec, final, downloaded)]
        if checked:
            plan = cluster_plan(attempt)
            found.append(cluster_capacity_problem(plan, nodes))
            found += await volume_problems(self._api, attempt.namespace, references(spec), plan, nodes)
            found += await episode_capacity_problems(self._api, settings, spec.sandbox, spec.grading, nodes)
        return apply_capacity_check(settings.capacity_check, [*filter(None, found)], nodes)

    async def _driver(self, attempt: Attempt, pods: Sequence[Json]) -> DriverState:
        if (address := head_address(pods)) is None:
            return UNREACHABLE
        head = RayHead(address, await self._credentials.of(attempt.uid))
        return await self._ray.driver(head, attempt.submission)
