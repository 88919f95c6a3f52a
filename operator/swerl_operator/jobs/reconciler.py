"""The shell around the decision: observe, act, write the status.

Guarantees: the job is read from the API server itself each time; what is observed depends only on what the decision
needs; actions are idempotent and come before the status that speaks of them; a status write that would overwrite a
newer one is refused by the server and the job looked at again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError
from swerl_api import API_VERSION, JobCondition, JobReason, SweRLJobSpec, SweRLJobStatus, holds
from swerl_api.names import ATTEMPT_LABEL, JOB_LABEL, ROLE_DRIVER, ROLE_ENGINE, ROLE_LABEL, ROLE_TRAIN

from ..context import OperatorContext
from ..draft import unreadable_spec, write_status
from ..errors import Forbidden, Invalid
from . import raycluster
from .attempt import Attempt, Object
from .capacity import capacity_problem
from .cleanup import count_leftovers, delete_leftovers, of_attempts
from .decision import BLOCKED_SECONDS, Action, Decision, Observed, decide, is_over
from .diagnosis import head_address
from .draft import Draft
from .episode_capacity import episode_problems
from .events import post_event
from .objects import job_file, role_binding, service_account, submission
from .plan import plan_of
from .preflight import preflight_pod, read_preflight
from .prerequisites import image_set_problem, missing_prerequisites
from .problem import Problem, joined
from .ray_jobs import Driver, RayJobs, Silence

Key = tuple[str, str]  # namespace, name
CONFLICT_SECONDS = 0.2


class JobReconciler:
    """Brings one SweRLJob at a time a step further."""

    def __init__(self, context: OperatorContext, ray: RayJobs) -> None:
        self._context = context
        self._api = context.api
        self._ray = ray
        self._silence = Silence()

    async def reconcile(self, key: Key) -> float | None:
        """One step; seconds until the next one, or None to wait for an event."""
        job = await self._api.find(API_VERSION, "swerljobs", *key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        status = SweRLJobStatus.model_validate(job.get("status") or {})
        generation = int(job["metadata"]["generation"])
        try:
            spec = SweRLJobSpec.model_validate(job["spec"])
        except ValidationError as error:
            return await self._invalid(job, status, generation, error)
        attempt = Attempt(key[0], key[1], job["metadata"]["uid"], status.attempt or 0, spec)
        seen = await self._observe(attempt, status)
        decision = decide(spec, status, generation, seen)
        try:
            await self._act(attempt, decision)
        except (Forbidden, Invalid) as error:
            decision.draft.blocked(JobCondition.VALIDATED, Problem(JobReason.REQUEST_REFUSED, str(error)))
            decision = Decision((), decision.draft, BLOCKED_SECONDS)
        return decision.again if await self._write(job, decision.draft) else CONFLICT_SECONDS

    async def _observe(self, attempt: Attempt, status: SweRLJobStatus) -> Observed:
        now = datetime.now(UTC)
        if is_over(status) or attempt.spec.suspend:
            left = await count_leftovers(self._api, attempt.namespace, of_attempts(attempt.job, None))
            return Observed(now, leftovers=left)
        if attempt.number == 0 or holds(status.conditions, JobCondition.SUSPENDED):
            return Observed(now)
        cluster = await self._api.find(raycluster.API, "rayclusters", attempt.namespace, attempt.name)
        if cluster is None:
            return await self._observe_start(attempt, now)
        pods = await self._ray_pods(attempt)
        driver = await self._driver(attempt, pods)
        silence = self._silence.seconds(attempt.submission, answers=driver.phase != "unreachable")
        return Observed(now, attempt.submission, cluster=cluster, pods=pods, driver=driver, silence=silence)

    async def _observe_start(self, attempt: Attempt, now: datetime) -> Observed:
        leftovers = await count_leftovers(self._api, attempt.namespace, of_attempts(attempt.job, attempt.number))
        missing = await missing_prerequisites(self._api, attempt, self._context.settings.driver_cluster_role)
        problem = await self._capacity_problem(attempt)
        images = await image_set_problem(self._api, attempt.namespace, attempt.spec.sandbox)
        pod = await self._api.find("v1", "pods", attempt.namespace, attempt.preflight_name)
        preflight = read_preflight(pod, preflight_pod(attempt)) if pod is not None else None
        return Observed(
            now, leftovers=leftovers, prerequisites=missing, capacity=problem, images=images, preflight=preflight
        )

    async def _capacity_problem(self, attempt: Attempt) -> Problem | None:
        settings, spec = self._context.settings, attempt.spec
        if settings.capacity_check != "on":
            return None
        nodes = await self._api.list("v1", "nodes", None)
        found = [*filter(None, [capacity_problem(plan_of(attempt), nodes)])]
        found += await episode_problems(self._api, settings, spec.sandbox, spec.grading, nodes)
        return joined(found) if found else None

    async def _ray_pods(self, attempt: Attempt) -> list[Object]:
        roles = f"{ROLE_LABEL} in ({ROLE_DRIVER},{ROLE_TRAIN},{ROLE_ENGINE})"
        selector = f"{JOB_LABEL}={attempt.job},{ATTEMPT_LABEL}={attempt.number},{roles},ray.io/cluster={attempt.name}"
        return await self._api.list("v1", "pods", attempt.namespace, labels=selector)

    async def _driver(self, attempt: Attempt, pods: Sequence[Object]) -> Driver:
        address = head_address(pods)
        return await self._ray.look(address, attempt.submission) if address else Driver("unreachable")

    async def _act(self, attempt: Attempt, decision: Decision) -> None:
        acts: dict[Action, Callable[[Attempt], Awaitable[None]]] = {
            Action.DELETE_EVERYTHING: self._delete_everything,
            Action.DELETE_OTHERS: self._delete_others,
            Action.DELETE_PREFLIGHT: self._delete_preflight,
            Action.ENSURE_ACCOUNT: self._ensure_account,
            Action.CREATE_PREFLIGHT: self._create_preflight,
            Action.CREATE_CLUSTER: self._create_cluster,
            Action.SUBMIT: self._submit,
            Action.DELETE_JOB: self._delete_job,
        }
        for action in decision.actions:
            await acts[action](attempt)

    async def _delete_everything(self, attempt: Attempt) -> None:
        await delete_leftovers(self._api, attempt.namespace, of_attempts(attempt.job, None))

    async def _delete_others(self, attempt: Attempt) -> None:
        await delete_leftovers(self._api, attempt.namespace, of_attempts(attempt.job, attempt.number))

    async def _delete_preflight(self, attempt: Attempt) -> None:
        await self._api.delete("v1", "pods", attempt.namespace, attempt.preflight_name, grace=0)

    async def _ensure_account(self, attempt: Attempt) -> None:
        await self._api.ensure("serviceaccounts", service_account(attempt))
        await self._api.ensure("rolebindings", role_binding(attempt, self._context.settings.driver_cluster_role))
        await self._api.ensure("configmaps", file := job_file(attempt))
        await self._api.patch("v1", "configmaps", attempt.namespace, attempt.name, {"data": file["data"]})

    async def _create_preflight(self, attempt: Attempt) -> None:
        await self._api.ensure("pods", preflight_pod(attempt))

    async def _create_cluster(self, attempt: Attempt) -> None:
        await self._api.ensure("rayclusters", raycluster.ray_cluster(plan_of(attempt)))

    async def _submit(self, attempt: Attempt) -> None:
        address = head_address(await self._ray_pods(attempt))
        if address:
            await self._ray.submit(address, submission(attempt))

    async def _delete_job(self, attempt: Attempt) -> None:
        await self._api.delete(API_VERSION, "swerljobs", attempt.namespace, attempt.job, uid=attempt.uid)

    async def _invalid(
        self, job: Object, status: SweRLJobStatus, generation: int, error: ValidationError
    ) -> float | None:
        """The API server holds a spec this operator cannot read: the CRDs are of another version."""
        draft = Draft(status, generation, datetime.now(UTC))
        draft.blocked(JobCondition.VALIDATED, Problem(JobReason.INVALID_SPEC, unreadable_spec(error)))
        return None if await self._write(job, draft) else CONFLICT_SECONDS

    async def _write(self, job: Object, draft: Draft) -> bool:
        """Write the status if it says something new; False when the job changed meanwhile."""
        if not await write_status(self._api, "swerljobs", job, draft.patch()):
            return False
        for condition in draft.news():
            await post_event(self._api, job, condition)
        return True
