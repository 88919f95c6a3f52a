"""What the world of one SweEval looks like; only reads.

Cost while shards run: every 5 s one read of each Job, and one list of the evaluation's Pods and of its ConfigMaps,
which the API server answers from its cache; with engines also a read of the RayCluster and two requests to its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from swerl_api import EvalProgress, SweEvalStatus
from swerl_api.names import (
    ROLE_DRIVER,
    ROLE_ENGINE,
    ROLE_LABEL,
    ROLE_MERGE,
    ROLE_SHARD,
    progress_name,
    submission_id,
)

from ..context import Settings
from ..jobs import raycluster
from ..jobs.attempt import Object
from ..jobs.capacity import capacity_problem
from ..jobs.cleanup import count_leftovers
from ..jobs.diagnosis import head_address
from ..jobs.episode_capacity import episode_problems
from ..jobs.preflight import Preflight, read_preflight
from ..jobs.prerequisites import image_set_problem
from ..jobs.problem import Problem
from ..jobs.ray_jobs import RayJobs, Silence
from ..kube import Kube
from . import manifests
from .decision import is_over
from .evaluation import Evaluation
from .prerequisites import missing_prerequisites
from .results import read_progress
from .state import Engines, Observed

OWN_PODS = f"{ROLE_LABEL} in ({ROLE_DRIVER},{ROLE_ENGINE},{ROLE_SHARD},{ROLE_MERGE})"  # not those of attempts


class Observer:
    """Looks at what belongs to an evaluation, as far as the decision needs it."""

    def __init__(self, api: Kube, ray: RayJobs, settings: Settings) -> None:
        self._api = api
        self._ray = ray
        self._settings = settings
        self._silence = Silence()

    async def observe(self, evaluation: Evaluation, status: SweEvalStatus, problems: list[Problem]) -> Observed:
        """The world now; `problems` are known already."""
        now = datetime.now(UTC)
        if is_over(status) or evaluation.spec.suspend:
            left = await count_leftovers(self._api, evaluation.namespace, evaluation.selector)
            return Observed(now, leftovers=left)
        pods = await self._api.list("v1", "pods", evaluation.namespace, labels=f"{evaluation.selector},{OWN_PODS}")
        parts, whole = await self._progress(evaluation)
        seen = Observed(
            now,
            shards=await self._mine(evaluation, "batch/v1", "jobs", evaluation.shards_name),
            merge=await self._mine(evaluation, "batch/v1", "jobs", evaluation.merge_name),
            engines=await self._engines(evaluation, status, pods) if evaluation.starts_engines else None,
            pods=[pod for pod in pods if not _of_ray(pod)],
            parts=parts,
            whole=whole,
        )
        serves = seen.engines is None or seen.engines.cluster is not None
        if seen.merge is not None or (seen.shards is not None and serves):
            return seen
        if seen.engines is not None and serves:
            return replace(seen, prerequisites=problems)  # the rest was good when the engines were asked for
        return await self._observe_start(evaluation, seen, problems)

    async def _observe_start(self, evaluation: Evaluation, seen: Observed, problems: list[Problem]) -> Observed:
        """What must be good before something is made."""
        found = [*problems, *await missing_prerequisites(self._api, evaluation, self._settings.driver_cluster_role)]
        if self._settings.capacity_check == "on":
            found += await self._capacity_problems(evaluation)
        return replace(
            seen,
            leftovers=await self._strangers(evaluation),
            prerequisites=found,
            images=await image_set_problem(self._api, evaluation.namespace, evaluation.spec.sandbox),
            preflight=await self._preflight(evaluation) if evaluation.served is not None else None,
            checkpoint=evaluation.checkpoint,
        )

    async def _capacity_problems(self, evaluation: Evaluation) -> list[Problem]:
        """What the nodes could not hold even when empty: the engines, a sandbox, a grading."""
        spec = evaluation.spec
        nodes = await self._api.list("v1", "nodes", None)
        found = await episode_problems(self._api, self._settings, spec.sandbox, spec.grading, nodes)
        if evaluation.served is None or not evaluation.starts_engines:
            return found
        return [*filter(None, [capacity_problem(manifests.engines_plan(evaluation), nodes)]), *found]

    async def _preflight(self, evaluation: Evaluation) -> Preflight | None:
        pod = await self._mine(evaluation, "v1", "pods", evaluation.preflight_name)
        return read_preflight(pod, manifests.preflight_pod(evaluation)) if pod is not None else None

    async def _strangers(self, evaluation: Evaluation) -> int:
        """Objects with our names that belong to an earlier evaluation of this name, which was just deleted."""
        places = [
            ("batch/v1", "jobs", evaluation.shards_name),
            ("batch/v1", "jobs", evaluation.merge_name),
            ("v1", "configmaps", evaluation.config_name),
            ("v1", "serviceaccounts", evaluation.account),
            ("v1", "pods", evaluation.preflight_name),
        ]
        if evaluation.starts_engines:
            places.append((raycluster.API, "rayclusters", evaluation.cluster_name))
        found = [await self._api.find(api, resource, evaluation.namespace, name) for api, resource, name in places]
        return sum(body is not None and not evaluation.owns(body) for body in found)

    async def _progress(self, evaluation: Evaluation) -> tuple[list[EvalProgress], EvalProgress | None]:
        """Of the shards, and of the merged whole."""
        maps = await self._api.list("v1", "configmaps", evaluation.namespace, labels=evaluation.selector)
        said = {body["metadata"]["name"]: read_progress(body) for body in maps if evaluation.owns(body)}
        whole = said.pop(progress_name(evaluation.name, ROLE_MERGE), None)
        return [part for part in said.values() if part is not None], whole

    async def _engines(self, evaluation: Evaluation, status: SweEvalStatus, pods: Sequence[Object]) -> Engines:
        submission = submission_id(evaluation.uid, status.failures or 0)
        mine = [pod for pod in pods if _of_ray(pod)]
        cluster = await self._mine(evaluation, raycluster.API, "rayclusters", evaluation.cluster_name)
        address = head_address(mine)
        if cluster is None or address is None:
            return Engines(submission, cluster, mine, silence=self._silence.seconds(submission, answers=False))
        driver = await self._ray.look(address, submission)
        serving = await self._ray.engines(address) if driver.phase == "running" else 0
        silence = self._silence.seconds(submission, answers=driver.phase != "unreachable")
        return Engines(submission, cluster, mine, driver, serving, silence)

    async def _mine(self, evaluation: Evaluation, api_version: str, resource: str, name: str) -> Object | None:
        body = await self._api.find(api_version, resource, evaluation.namespace, name)
        return body if body is not None and evaluation.owns(body) else None


def _of_ray(pod: Object) -> bool:
    return "ray.io/cluster" in pod["metadata"]["labels"]
