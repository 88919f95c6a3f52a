"""Reads exactly what the decision about an evaluation depends on.

Cost every 5 s while shards run: one read of each Job, and one list each of the evaluation's Pods and ConfigMaps, which
the API server answers from its cache. With engines: also a read of the RayCluster and two requests to its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from swerl_api import EvalProgress, EvalReason, SweEvalStatus
from swerl_api.names import (
    ROLE_DRIVER,
    ROLE_ENGINE,
    ROLE_LABEL,
    ROLE_MERGE,
    ROLE_SHARD,
    progress_name,
    submission_id,
)
from swerl_kube import Json, KubeClient, pod_refusal

from ..checks.capacity import apply_capacity_check, cluster_capacity_problem
from ..checks.episode_capacity import episode_capacity_problems
from ..checks.pods import refusal_problem
from ..checks.preflight import Preflight, read_preflight
from ..checks.prerequisites import image_set_problem
from ..checks.volumes import volume_problems
from ..context import Settings
from ..owned import find_owned, foreign_message
from ..problem import Problem
from ..ray.cleanup import count_leftovers
from ..ray.cluster import RAY_API
from ..ray.credentials import CredentialSource
from ..ray.jobs import UNREACHABLE, DriverState, RayHead, RayJobs, UnreachableTimer
from ..ray.pods import head_address
from ..status_builder import is_finished
from . import manifests
from .evaluation import ServedEvaluation
from .prerequisites import engine_references, missing_prerequisites
from .progress import belongs_to, lacks_pods, read_progress

PROCESS_PODS = f"{ROLE_LABEL} in ({ROLE_DRIVER},{ROLE_ENGINE},{ROLE_SHARD},{ROLE_MERGE})"  # no sandbox, no grading


@dataclass(frozen=True)
class ObservedEngines:
    """The engines of an evaluation; the head's Pod is one of `pods`."""

    submission: str  # id of the process that runs them
    cluster: Json | None = None
    pods: Sequence[Json] = ()
    driver: DriverState = UNREACHABLE
    serving: int = 0  # engines that the router sends requests to
    unreachable_seconds: float = 0.0  # seconds since Ray last answered


@dataclass(frozen=True)
class EvalObservation:
    """The state of the cluster for one evaluation. None means: absent, or not read as the decision does not need it."""

    now: datetime
    leftovers: int = 0  # objects to delete: of a finished or suspended evaluation, or of an earlier one of this name
    prerequisite_problems: Sequence[Problem] = ()
    capacity_problem: Problem | None = None
    image_set_problem: Problem | None = None  # of the SweImageSet the sandboxes wait for
    preflight: Preflight | None = None
    engines: ObservedEngines | None = None  # None: the model has an endpoint
    shards: Json | None = None  # the Indexed Job
    merge: Json | None = None
    pods: Sequence[Json] = ()  # of shards and merge
    pod_refusal: Problem | None = None  # of shards or merge, while it lacks Pods
    shard_progress: Sequence[EvalProgress] = ()  # one per shard
    merged_progress: EvalProgress | None = None  # of the merge
    checkpoint: str | None = None  # to evaluate


class EvalObserver:
    """Reads the state of the cluster for one evaluation at a time."""

    def __init__(self, api: KubeClient, ray: RayJobs, credentials: CredentialSource, settings: Settings) -> None:
        self._api = api
        self._ray = ray
        self._credentials = credentials
        self._settings = settings
        self._unreachable = UnreachableTimer()

    async def observe(
        self, evaluation: ServedEvaluation, status: SweEvalStatus, problems: list[Problem]
    ) -> EvalObservation:
        """The state now; `problems` are known already. It reads only what the decision needs in this phase."""
        now = datetime.now(UTC)
        if is_finished(status) or evaluation.spec.suspend:
            left = await count_leftovers(self._api, evaluation.namespace, evaluation.selector)
            return EvalObservation(now, leftovers=left)
        pods = await self._api.list("v1", "pods", evaluation.namespace, labels=f"{evaluation.selector},{PROCESS_PODS}")
        shards, merged = await self._progress(evaluation)
        observed = EvalObservation(
            now,
            shards=await self._find_own(evaluation, "batch/v1", "jobs", evaluation.shards_name),
            merge=await self._find_own(evaluation, "batch/v1", "jobs", evaluation.merge_name),
            engines=await self._engines(evaluation, status, pods) if evaluation.starts_engines else None,
            pods=[pod for pod in pods if not _is_ray_pod(pod)],
            shard_progress=shards,
            merged_progress=merged,
        )
        observed = replace(observed, pod_refusal=await self._pod_refusal(observed))
        serves = observed.engines is None or observed.engines.cluster is not None
        if observed.merge is not None or (observed.shards is not None and serves):
            return observed
        if observed.engines is not None and serves:
            # The other checks passed before the engines were created.
            return replace(observed, prerequisite_problems=problems)
        return await self._observe_start(evaluation, observed, problems)

    async def _pod_refusal(self, observed: EvalObservation) -> Problem | None:
        """Why the Job that should run lacks Pods, which its status omits; None if a Pod was created since."""
        job = observed.merge or observed.shards
        if job is None or not lacks_pods(job, observed.pods):
            return None
        name = job["metadata"]["name"]
        made = [str(pod["metadata"].get("creationTimestamp") or "") for pod in observed.pods if belongs_to(pod, job)]
        message = await pod_refusal(self._api, job["metadata"]["namespace"], name, since=max(made, default=""))
        return refusal_problem(f"Job {name}", message) if message else None

    async def _observe_start(
        self, evaluation: ServedEvaluation, observed: EvalObservation, problems: list[Problem]
    ) -> EvalObservation:
        """What must be good before anything is created."""
        missing = await missing_prerequisites(self._api, evaluation, self._settings)
        earlier, foreign = await self._name_conflicts(evaluation)
        return replace(
            observed,
            capacity_problem=await self._capacity_problem(evaluation),
            leftovers=earlier,
            prerequisite_problems=[*problems, *missing, *foreign],
            image_set_problem=await image_set_problem(self._api, evaluation.namespace, evaluation.spec.sandbox),
            preflight=await self._preflight(evaluation) if evaluation.served is not None else None,
            checkpoint=evaluation.checkpoint,
        )

    async def _capacity_problem(self, evaluation: ServedEvaluation) -> Problem | None:
        """Why the nodes, even when empty, could not hold the engines, a sandbox or a grading."""
        spec, check = evaluation.spec, self._settings.capacity_check
        if check == "off":
            return None
        nodes = await self._api.list("v1", "nodes", None)
        found = await episode_capacity_problems(self._api, self._settings, spec.sandbox, spec.grading, nodes)
        if evaluation.served is not None and evaluation.starts_engines:
            plan, references = manifests.engines_plan(evaluation), engine_references(evaluation)
            found += filter(None, [cluster_capacity_problem(plan, nodes)])
            found += await volume_problems(self._api, evaluation.namespace, references, plan, nodes)
        return apply_capacity_check(check, found, nodes)

    async def _preflight(self, evaluation: ServedEvaluation) -> Preflight | None:
        pod = await self._find_own(evaluation, "v1", "pods", evaluation.preflight_name)
        return read_preflight(pod, manifests.evaluation_preflight(evaluation)) if pod is not None else None

    async def _name_conflicts(self, evaluation: ServedEvaluation) -> tuple[int, list[Problem]]:
        """How many objects are of an earlier evaluation of this name, and problems with objects of other owners."""
        resources = [
            ("batch/v1", "jobs", evaluation.shards_name),
            ("batch/v1", "jobs", evaluation.merge_name),
            ("v1", "configmaps", evaluation.config_name),
            ("v1", "serviceaccounts", evaluation.account),
            ("v1", "pods", evaluation.preflight_name),
        ]
        if evaluation.starts_engines:
            resources.append((RAY_API, "rayclusters", evaluation.cluster_name))
        found = [await self._api.find(api, resource, evaluation.namespace, name) for api, resource, name in resources]
        others = [body for body in found if body is not None and not evaluation.owns(body)]
        foreign = [body for body in others if not evaluation.is_of_earlier(body)]
        return len(others) - len(foreign), [_foreign_problem(evaluation, body) for body in foreign]

    async def _progress(self, evaluation: ServedEvaluation) -> tuple[list[EvalProgress], EvalProgress | None]:
        """The progress of each shard, and of the merge."""
        maps = await self._api.list("v1", "configmaps", evaluation.namespace, labels=evaluation.selector)
        found = {body["metadata"]["name"]: read_progress(body) for body in maps if evaluation.owns(body)}
        merged = found.pop(progress_name(evaluation.name, ROLE_MERGE), None)
        return [progress for progress in found.values() if progress is not None], merged

    async def _engines(
        self, evaluation: ServedEvaluation, status: SweEvalStatus, pods: Sequence[Json]
    ) -> ObservedEngines:
        submission = submission_id(evaluation.uid, status.failures or 0)
        ray_pods = [pod for pod in pods if _is_ray_pod(pod)]
        cluster = await self._find_own(evaluation, RAY_API, "rayclusters", evaluation.cluster_name)
        address = head_address(ray_pods)
        if cluster is None or address is None:
            unreachable = self._unreachable.seconds(submission, answers=False)
            return ObservedEngines(submission, cluster, ray_pods, unreachable_seconds=unreachable)
        head = RayHead(address, await self._credentials.of(evaluation.uid))
        driver = await self._ray.driver(head, submission)
        serving = await self._ray.ready_engines(head) if driver.phase == "running" else 0
        unreachable = self._unreachable.seconds(submission, answers=driver.phase != "unreachable")
        return ObservedEngines(submission, cluster, ray_pods, driver, serving, unreachable)

    async def _find_own(self, evaluation: ServedEvaluation, api_version: str, resource: str, name: str) -> Json | None:
        return await find_owned(self._api, api_version, resource, evaluation.namespace, name, evaluation.uid)


def _foreign_problem(evaluation: ServedEvaluation, body: Json) -> Problem:
    text = foreign_message(body["kind"], evaluation.namespace, body["metadata"]["name"], "SweEval")
    return Problem(EvalReason.FOREIGN_OBJECT, text)


def _is_ray_pod(pod: Json) -> bool:
    return "ray.io/cluster" in pod["metadata"]["labels"]
