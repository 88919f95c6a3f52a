"""The shell around the decision: observe, act, write the status.

Guarantees: the evaluation is read from the API server itself each time; actions are idempotent and come before the
status that speaks of them; a status write that would overwrite a newer one is refused by the server and the evaluation
looked at again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError
from swerl_api import API_VERSION, Condition, EvalCondition, EvalReason, SweEvalSpec, SweEvalStatus

from .. import events
from ..context import OperatorContext
from ..draft import unreadable_spec, write_status
from ..errors import Forbidden, Invalid
from ..jobs.attempt import Object
from ..jobs.decision import BLOCKED_SECONDS
from ..jobs.problem import Problem
from ..jobs.ray_jobs import RayJobs
from ..jobs.reconciler import CONFLICT_SECONDS
from .actions import EvalActions
from .decision import decide
from .draft import Draft
from .evaluation import Evaluation
from .observation import Observer
from .prerequisites import find_model
from .state import Decision

Key = tuple[str, str]  # namespace, name


class EvalReconciler:
    """Brings one SweEval at a time a step further."""

    def __init__(self, context: OperatorContext, ray: RayJobs) -> None:
        self._api = context.api
        self._observer = Observer(context.api, ray, context.settings)
        self._actions = EvalActions(context.api, ray, context.settings.driver_cluster_role)

    async def reconcile(self, key: Key) -> float | None:
        """One step; seconds until the next one, or None to wait for an event."""
        body = await self._api.find(API_VERSION, "sweevals", *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        status = SweEvalStatus.model_validate(body.get("status") or {})
        generation = int(body["metadata"]["generation"])
        try:
            spec = SweEvalSpec.model_validate(body["spec"])
        except ValidationError as error:
            draft = Draft(status, generation, datetime.now(UTC))
            draft.blocked(EvalCondition.VALIDATED, Problem(EvalReason.INVALID_SPEC, unreadable_spec(error)))
            return None if await self._write(body, draft) else CONFLICT_SECONDS
        decision = await self._step(body, spec, status, generation)
        return decision.again if await self._write(body, decision.draft) else CONFLICT_SECONDS

    async def _step(self, body: Object, spec: SweEvalSpec, status: SweEvalStatus, generation: int) -> Decision:
        metadata = body["metadata"]
        found = await find_model(self._api, metadata["namespace"], spec, status.checkpoint)
        problems = [found] if isinstance(found, Problem) else []
        served = None if isinstance(found, Problem) else found
        evaluation = Evaluation(metadata["namespace"], metadata["name"], metadata["uid"], spec, served)
        seen = await self._observer.observe(evaluation, status, problems)
        decision = decide(spec, status, generation, seen)
        try:
            await self._actions.perform(evaluation, decision.actions, status.failures or 0)
        except (Forbidden, Invalid) as error:
            decision.draft.blocked(EvalCondition.VALIDATED, Problem(EvalReason.REQUEST_REFUSED, str(error)))
            return Decision((), decision.draft, BLOCKED_SECONDS)
        return decision

    async def _write(self, body: Object, draft: Draft) -> bool:
        """Write the status if it says something new; False when the evaluation changed meanwhile."""
        if not await write_status(self._api, "sweevals", body, draft.patch()):
            return False
        for condition in filter(_is_news, draft.news()):
            await events.post_condition(self._api, "SweEval", body, condition, _event_type(condition))
        return True


def _event_type(condition: Condition) -> events.EventType:
    good = condition.status == "True" and condition.type != EvalCondition.FAILED
    return "Normal" if good else "Warning"


def _is_news(condition: Condition) -> bool:
    """Whether people should hear of it; what is merely on its way is not worth an Event."""
    if condition.status == "True":
        return True
    obstacles = (EvalCondition.VALIDATED, EvalCondition.IMAGES_READY)
    lost = condition.reason == EvalReason.ENGINES_LOST and condition.type == EvalCondition.MODEL_READY
    return lost or (condition.type in obstacles and condition.reason != EvalReason.PREFLIGHT)
