"""Reconciles SweEvals: observe, decide, act, write the status.

Guarantees: each step reads the evaluation from the API server itself; actions are idempotent and come before the status
that reports them; the server refuses a status write that would overwrite a newer one, and the evaluation is reconciled
again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError
from swerl_api import API_VERSION, EvalCondition, EvalReason, SweEvalSpec, SweEvalStatus
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
from .actions import EvalActions
from .decide import EvalDecision, decide
from .evaluation import ServedEvaluation
from .events import post_event
from .observe import EvalObserver
from .prerequisites import find_model
from .status import EvalStatusBuilder


class EvalReconciler:
    """Brings one SweEval at a time a step further."""

    def __init__(self, context: OperatorContext, ray: RayJobs) -> None:
        self._api = context.api
        credentials = CredentialSource(context.api, context.settings)
        self._observer = EvalObserver(context.api, ray, credentials, context.settings)
        self._actions = EvalActions(context.api, ray, credentials, context.settings)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """One step; seconds until the next one, or None to wait for an event."""
        body = await self._api.find(API_VERSION, "sweevals", *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        status = SweEvalStatus.model_validate(body.get("status") or {})
        generation = int(body["metadata"]["generation"])
        try:
            spec = SweEvalSpec.from_stored(body["spec"])
        except ValidationError as error:
            builder = EvalStatusBuilder(status, generation, datetime.now(UTC))
            builder.block(EvalCondition.VALIDATED, Problem(EvalReason.INVALID_SPEC, invalid_spec_message(error)))
            return None if await self._write(body, builder) else CONFLICT_SECONDS
        decision = await self._step(body, spec, status, generation)
        return decision.requeue_after if await self._write(body, decision.builder) else CONFLICT_SECONDS

    async def _step(self, body: Json, spec: SweEvalSpec, status: SweEvalStatus, generation: int) -> EvalDecision:
        metadata = body["metadata"]
        found = await find_model(self._api, metadata["namespace"], spec, status.checkpoint)
        problems = [found] if isinstance(found, Problem) else []
        served = None if isinstance(found, Problem) else found
        evaluation = ServedEvaluation(metadata["namespace"], metadata["name"], metadata["uid"], spec, served)
        observed = await self._observer.observe(evaluation, status, problems)
        decision = decide(spec, status, generation, observed)
        try:
            await self._actions.perform(evaluation, decision.actions, status.failures or 0)
        except (*NOT_ADMITTED, ForeignObject) as error:
            return refused(decision.builder, error)
        return decision

    async def _write(self, body: Json, builder: EvalStatusBuilder) -> bool:
        """Write the status if it changed; False when the evaluation changed meanwhile."""
        if not await write_status(self._api, "sweevals", body, builder.patch()):
            return False
        for condition in builder.changed_conditions():
            await post_event(self._api, body, condition)
        return True
