"""What to do next for one SweEval: a pure function of its spec, its status and what was observed.

Guarantees: the same observation gives the same decision, so a crash between any two writes changes nothing; nothing
starts before prerequisites, capacity and preflight are good and nothing of an earlier evaluation of this name is left;
shards run only while engines serve; two processes never work on the same shard.
"""

from __future__ import annotations

from datetime import datetime

from swerl_api import EvalCondition, EvalReason, SweEvalSpec, SweEvalStatus, holds
from swerl_api.names import ROLE_LABEL, ROLE_SHARD

from ..jobs.decision import (
    BLOCKED_SECONDS,
    EXIT_NO_RETRY,
    RUNNING_SECONDS,
    SILENCE_SECONDS,
    STARTING_SECONDS,
    age,
)
from ..jobs.diagnosis import heads, pod_problem, running
from ..jobs.problem import Problem, joined
from .draft import Draft
from .results import condition_of, failure
from .state import Action, Decision, Engines, Observed


def decide(spec: SweEvalSpec, status: SweEvalStatus, generation: int, seen: Observed) -> Decision:
    """The next step of the evaluation."""
    draft = Draft(status, generation, seen.now)
    if is_over(status):
        return _tidy(spec, status, draft, seen)
    if spec.suspend:
        draft.suspended()
        again = STARTING_SECONDS if seen.leftovers else None
        return Decision((Action.DELETE_EVERYTHING,) if seen.leftovers else (), draft, again)
    if status.start_time is None:
        draft.begin()
        return Decision((), draft, 0)
    remaining = _deadline(spec, status, seen.now)
    if remaining is not None and remaining <= 0:
        text = f"activeDeadlineSeconds ({spec.active_deadline_seconds} s) passed since {status.start_time}"
        return _finish(draft, EvalCondition.FAILED, EvalReason.DEADLINE_EXCEEDED, text)
    decision = _advance(spec, draft, seen)
    if remaining is None or decision.again is None:
        return decision
    return Decision(decision.actions, decision.draft, min(decision.again, remaining))


def is_over(status: SweEvalStatus) -> bool:
    """Whether the evaluation is Complete or Failed."""
    return holds(status.conditions, EvalCondition.COMPLETE) or holds(status.conditions, EvalCondition.FAILED)


def has_begun(seen: Observed) -> bool:
    """Whether prerequisites were good once: something that stands on them is there."""
    return bool(seen.shards or seen.merge or (seen.engines and seen.engines.cluster))


def _advance(spec: SweEvalSpec, draft: Draft, seen: Observed) -> Decision:
    if holds(draft.status.conditions, EvalCondition.SUSPENDED):
        draft.condition(EvalCondition.SUSPENDED, "False", EvalReason.RESUMED)
    draft.count(seen.parts)
    if seen.merge is not None:
        return _watch_merge(draft, seen)
    if seen.shards is not None and condition_of(seen.shards, "Complete"):
        draft.status.shards_done = spec.shards
        draft.condition(EvalCondition.RUNNING, "True", EvalReason.MERGING)
        draft.phase("Merging")
        return Decision((Action.CREATE_MERGE, *_end_engines(seen)), draft, STARTING_SECONDS)
    if not has_begun(seen):
        obstacle = _prepare(draft, seen)
        if obstacle is not None:
            return obstacle
    elif seen.prerequisites:
        draft.blocked(EvalCondition.VALIDATED, joined(list(seen.prerequisites)))
        return Decision((), draft, BLOCKED_SECONDS)
    if seen.engines is None:
        draft.condition(EvalCondition.MODEL_READY, "True", EvalReason.ENDPOINT_GIVEN)
        return _watch_shards(spec, draft, seen)
    return _await_engines(spec, draft, seen) or _watch_shards(spec, draft, seen)


def _prepare(draft: Draft, seen: Observed) -> Decision | None:
    """What must be good before anything is taken; None when it is."""
    if seen.leftovers:
        text = f"{seen.leftovers} objects of an earlier evaluation of this name are being deleted"
        draft.blocked(EvalCondition.VALIDATED, Problem(EvalReason.NAME_IN_USE, text))
        return Decision((), draft, STARTING_SECONDS)
    if seen.prerequisites:
        draft.blocked(EvalCondition.VALIDATED, joined(list(seen.prerequisites)))
        return Decision((Action.DELETE_PREFLIGHT,), draft, BLOCKED_SECONDS)
    draft.condition(EvalCondition.VALIDATED, "True", EvalReason.VALID)
    draft.status.checkpoint = seen.checkpoint
    if seen.images is not None:
        draft.blocked(EvalCondition.IMAGES_READY, seen.images)
        return Decision((), draft, BLOCKED_SECONDS)
    checked = seen.preflight
    if checked is None:
        draft.condition(
            EvalCondition.IMAGES_READY, "False", EvalReason.PREFLIGHT, "pulling images, looking for sources"
        )
        draft.phase("Starting")
        return Decision((Action.CREATE_PREFLIGHT,), draft, STARTING_SECONDS)
    if checked.state == "passed":
        draft.condition(EvalCondition.IMAGES_READY, "True", EvalReason.IMAGES_PULLED)
        return None
    if checked.problem is not None:
        draft.blocked(EvalCondition.IMAGES_READY, checked.problem)
    if checked.state == "waiting":
        return Decision((), draft, STARTING_SECONDS)
    return Decision(
        (Action.DELETE_PREFLIGHT,), draft, STARTING_SECONDS if checked.state == "outdated" else BLOCKED_SECONDS
    )


def _await_engines(spec: SweEvalSpec, draft: Draft, seen: Observed) -> Decision | None:
    """Bring the engines to serve and watch over them; None when shards may run."""
    engines, status = seen.engines, draft.status
    assert engines is not None
    if engines.cluster is None:
        if status.submission is not None:
            return _lost(spec, draft, seen, "their RayCluster was deleted")
        if engines.pods:
            return Decision((), draft, STARTING_SECONDS)  # the earlier ones still end
        draft.condition(EvalCondition.MODEL_READY, "False", EvalReason.CLUSTER_CREATED)
        draft.phase("Starting")
        return Decision((Action.ENSURE_ACCOUNT, Action.CREATE_ENGINES), draft, STARTING_SECONDS)
    if "deletionTimestamp" in engines.cluster["metadata"]:
        return Decision((), draft, STARTING_SECONDS)
    driver = engines.driver
    if driver.phase in ("failed", "succeeded"):
        return _lost(spec, draft, seen, driver.message or "the process that keeps them has ended")
    if status.submission is None:
        return _submit(draft, engines)
    if driver.phase == "absent":
        return _lost(spec, draft, seen, "the Ray head was restarted and has lost them")
    if driver.phase == "unreachable":
        if not any(running(pod) for pod in heads(engines.pods)):
            return _lost(spec, draft, seen, "the Ray head Pod is gone or has ended")
        if engines.silence > SILENCE_SECONDS:
            return _lost(spec, draft, seen, f"{driver.message} (for {engines.silence:.0f} s)")
    return _served(draft, seen, engines)


def _submit(draft: Draft, engines: Engines) -> Decision:
    problem = pod_problem(engines.pods)
    reason, text = (problem.reason, problem.message) if problem else (EvalReason.CLUSTER_STARTING, "")
    draft.condition(EvalCondition.MODEL_READY, "False", reason, text)
    draft.phase("Blocked" if problem else "Starting")
    if engines.driver.phase == "absent":
        return Decision((Action.SUBMIT,), draft, STARTING_SECONDS)
    if engines.driver.phase != "unreachable":
        draft.status.submission = engines.submission
    return Decision((), draft, STARTING_SECONDS)


def _served(draft: Draft, seen: Observed, engines: Engines) -> Decision | None:
    """Shards that have begun go on while an engine is replaced: what it cost them is tried again."""
    if engines.serving:
        draft.condition(EvalCondition.MODEL_READY, "True", EvalReason.ENGINES_SERVING)
        return None
    problem = pod_problem(engines.pods)
    reason, text = (problem.reason, problem.message) if problem else (EvalReason.ENGINES_STARTING, "")
    draft.condition(EvalCondition.MODEL_READY, "False", reason, text)
    if seen.shards is not None:
        return None
    draft.phase("Blocked" if problem else "Starting")
    return Decision((), draft, STARTING_SECONDS)


def _lost(spec: SweEvalSpec, draft: Draft, seen: Observed, message: str) -> Decision:
    """The engines are gone: stop the shards, and start others or give up."""
    final = seen.engines is not None and seen.engines.driver.exit_code == EXIT_NO_RETRY
    if final or (draft.status.failures or 0) >= spec.retries:
        text = f"engines: {message}" + ("" if final else f" (spec.retries is {spec.retries})")
        return _finish(draft, EvalCondition.FAILED, EvalReason.ENGINES_LOST, text)
    draft.engines_lost(message)
    shards = (Action.DELETE_SHARDS,) if seen.shards else ()
    return Decision((*shards, *_end_engines(seen)), draft, STARTING_SECONDS)


def _watch_shards(spec: SweEvalSpec, draft: Draft, seen: Observed) -> Decision:
    if seen.shards is None or "deletionTimestamp" in seen.shards["metadata"]:
        draft.phase("Starting")
        if seen.shards or any(pod["metadata"]["labels"].get(ROLE_LABEL) == ROLE_SHARD for pod in seen.pods):
            return Decision((), draft, STARTING_SECONDS)  # the earlier ones still end
        actions = (Action.ENSURE_ACCOUNT, Action.CREATE_SHARDS, Action.DELETE_PREFLIGHT)
        return Decision(actions, draft, STARTING_SECONDS)
    draft.status.shards_done = int((seen.shards.get("status") or {}).get("succeeded") or 0)
    if condition_of(seen.shards, "Failed"):
        return _finish(draft, EvalCondition.FAILED, EvalReason.SHARDS_FAILED, failure(seen.shards, seen.pods))
    problem = pod_problem(seen.pods)
    text = problem.message if problem else f"{draft.status.shards_done} of {spec.shards} shards done"
    draft.condition(EvalCondition.RUNNING, "True", problem.reason if problem else EvalReason.SHARDS_RUNNING, text)
    draft.phase("Running")
    return Decision((), draft, RUNNING_SECONDS)


def _watch_merge(draft: Draft, seen: Observed) -> Decision:
    assert seen.merge is not None
    if condition_of(seen.merge, "Failed"):
        return _finish(draft, EvalCondition.FAILED, EvalReason.MERGE_FAILED, failure(seen.merge, seen.pods))
    if condition_of(seen.merge, "Complete") and seen.whole is not None:
        draft.conclude(seen.whole)
        status = draft.status
        text = f"{status.resolved} of {status.done} attempts resolved, {status.errors} without a result"
        return _finish(draft, EvalCondition.COMPLETE, EvalReason.ALL_RESULTS, text)
    draft.phase("Merging")
    return Decision(_end_engines(seen), draft, STARTING_SECONDS)


def _end_engines(seen: Observed) -> tuple[Action, ...]:
    engines = seen.engines
    alive = engines and engines.cluster and "deletionTimestamp" not in engines.cluster["metadata"]
    return (Action.DELETE_ENGINES,) if alive else ()


def _finish(draft: Draft, outcome: str, reason: str, message: str) -> Decision:
    draft.finish(outcome, reason, message)
    return Decision((), draft, 0)


def _tidy(spec: SweEvalSpec, status: SweEvalStatus, draft: Draft, seen: Observed) -> Decision:
    """Nothing of a finished evaluation stays but its conditions, and those only for the time to live."""
    if seen.leftovers:
        return Decision((Action.DELETE_EVERYTHING,), draft, STARTING_SECONDS)
    if spec.ttl_seconds_after_finished is None:
        return Decision((), draft, None)
    remaining = spec.ttl_seconds_after_finished - age(status.completion_time, seen.now)
    return Decision((), draft, remaining) if remaining > 0 else Decision((Action.DELETE_EVALUATION,), draft, None)


def _deadline(spec: SweEvalSpec, status: SweEvalStatus, now: datetime) -> float | None:
    if spec.active_deadline_seconds is None or status.start_time is None:
        return None
    return spec.active_deadline_seconds - age(status.start_time, now)
