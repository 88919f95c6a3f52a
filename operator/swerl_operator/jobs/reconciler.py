"""Reconciles SweRLJobs: observe, decide, act, write the status.

Guarantees: each step reads the job from the API server itself; actions are idempotent and come before the status that
reports them; the server refuses a status write that would overwrite a newer one, and the job is reconciled again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError
from swerl_api import API_VERSION, JobCondition, JobReason, SweRLJobSpec, SweRLJobStatus
from swerl_api.names import RETRY_ANNOTATION
from swerl_kube import NOT_ADMITTED, Json

from ..context import OperatorContext
from ..decision import refused
from ..owned import ForeignObject
from ..problem import Problem
from ..ray.credentials import CredentialSource
from ..ray.jobs import RayJobs
from ..requeue import CONFLICT_SECONDS
from ..status_builder import invalid_spec_message, write_status
from ..workqueue import ObjectKey
from .actions import JobActions
from .attempt import Attempt
from .decide import JobDecision, decide
from .events import post_event
from .observe import JobObserver
from .status import JobStatusBuilder


class JobReconciler:
    """Brings one SweRLJob at a time a step further."""

    def __init__(self, context: OperatorContext, ray: RayJobs) -> None:
        self._api = context.api
        credentials = CredentialSource(context.api, context.settings)
        self._observer = JobObserver(context.api, ray, credentials, context.settings)
        self._actions = JobActions(context.api, ray, credentials, context.settings)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """One step; seconds until the next one, or None to wait for an event."""
        body = await self._api.find(API_VERSION, "swerljobs", *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        status = SweRLJobStatus.model_validate(body.get("status") or {})
        generation = int(body["metadata"]["generation"])
        try:
            spec = SweRLJobSpec.from_stored(body["spec"])
        except ValidationError as error:
            builder = JobStatusBuilder(status, generation, datetime.now(UTC))
            builder.block(JobCondition.VALIDATED, Problem(JobReason.INVALID_SPEC, invalid_spec_message(error)))
            return None if await self._write(body, builder) else CONFLICT_SECONDS
        retry_of = str((body["metadata"].get("annotations") or {}).get(RETRY_ANNOTATION, ""))
        attempt = Attempt(*key, body["metadata"]["uid"], status.attempt or 0, spec, retry_of)
        decision = await self._step(attempt, status, generation)
        return decision.requeue_after if await self._write(body, decision.builder) else CONFLICT_SECONDS

    async def _step(self, attempt: Attempt, status: SweRLJobStatus, generation: int) -> JobDecision:
        observed = await self._observer.observe(attempt, status)
        decision = decide(attempt.spec, status, generation, observed)
        try:
            await self._actions.perform(attempt, decision.actions)
        except (*NOT_ADMITTED, ForeignObject) as error:
            return refused(decision.builder, error)
        return decision

    async def _write(self, body: Json, builder: JobStatusBuilder) -> bool:
        """Write the status if it changed; False when the job changed meanwhile."""
        if not await write_status(self._api, "swerljobs", body, builder.patch()):
            return False
        for condition in builder.changed_conditions():
            await post_event(self._api, body, condition)
        return True
