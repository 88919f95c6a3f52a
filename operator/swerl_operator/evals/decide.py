"""Decides the next step for one SweEval: a pure function of its spec, its status and what was observed.

Guarantees: the same observation gives the same decision, so a crash between any two writes changes nothing; nothing
starts before prerequisites, capacity and preflight are good and nothing of an earlier evaluation of this name is left;
shards run only while engines serve; two processes never work on the same shard.
"""

from __future__ import annotations

from enum import Enum, auto

from swerl_api import EvalCondition, EvalReason, SweEvalSpec, SweEvalStatus, is_condition_true
from swerl_api.names import ROLE_LABEL, ROLE_SHARD

from ..checks.pods import cluster_problem, missing_pods, pod_problem, sidecars_not_ready
from ..checks.prerequisites import validated_message
from ..decision import Decision, await_preflight, clean_up, deadline_message, stop
from ..problem import Problem, blocking_problems, merge_problems
from ..ray.jobs import EXIT_NO_RETRY, UNREACHABLE_TIMEOUT_SECONDS
from ..ray.pods import head_pods, is_running
from ..requeue import BLOCKED_SECONDS, RUNNING_SECONDS, STARTING_SECONDS, seconds_left
from ..status_builder import is_finished
from .observe import EvalObservation, ObservedEngines
from .progress import failure_message, job_condition
from .status import EvalStatusBuilder


class EvalAction(Enum):
    """What `EvalActions` performs, in this order."""

    DELETE_EVERYTHING = auto()  # Jobs, Pods, engines, sandboxes; the results stay
    DELETE_SHARDS = auto()
    DELETE_ENGINES = auto()
    DELETE_PREFLIGHT = auto()
    ENSURE_ACCOUNT = auto()  # ServiceAccount, RoleBinding, evaluation file
    CREATE_PREFLIGHT = auto()
    CREATE_ENGINES = auto()
    SUBMIT = auto()
    CREATE_SHARDS = auto()
    CREATE_MERGE = auto()
    DELETE_EVALUATION = auto()


EvalDecision = Decision[EvalAction, EvalStatusBuilder]


def decide(spec: SweEvalSpec, status: SweEvalStatus, generation: int, observed: EvalObservation) -> EvalDecision:
    """The next step of the evaluation."""
    builder = EvalStatusBuilder(status, generation, observed.now)
    if is_finished(status):
        return clean_up(spec, builder, observed.leftovers, EvalAction.DELETE_EVERYTHING, EvalAction.DELETE_EVALUATION)
    if spec.suspend:
        builder.suspend()
        return stop(builder, observed.leftovers, EvalAction.DELETE_EVERYTHING)
    if status.start_time is None:
        builder.start()
        return EvalDecision((), builder, 0)
    remaining = seconds_left(spec.active_deadline_seconds, status.start_time, observed.now)
    if remaining is not None and remaining <= 0:
        text = deadline_message(spec, status.start_time)
        return _finish(builder, EvalCondition.FAILED, EvalReason.DEADLINE_EXCEEDED, text)
    return _advance(spec, builder, observed).within(remaining)


def has_started(observed: EvalObservation) -> bool:
    """Whether prerequisites were good before: something that depends on them exists."""
    return bool(observed.shards or observed.merge or (observed.engines and observed.engines.cluster))


def _advance(spec: SweEvalSpec, builder: EvalStatusBuilder, observed: EvalObservation) -> EvalDecision:
    if is_condition_true(builder.status.conditions, EvalCondition.SUSPENDED):
        builder.condition(EvalCondition.SUSPENDED, "False", EvalReason.RESUMED, "spec.suspend is false again")
    builder.aggregate_shards(observed.shard_progress)
    if observed.merge is not None:
        return _follow_merge(builder, observed)
    if observed.shards is not None and job_condition(observed.shards, "Complete"):
        builder.status.shards_done = spec.shards
        builder.condition(EvalCondition.RUNNING, "True", EvalReason.MERGING)
        builder.phase("Merging")
        return EvalDecision((EvalAction.CREATE_MERGE, *_delete_engines(observed)), builder, STARTING_SECONDS)
    if not has_started(observed):
        blocked = _prepare(spec, builder, observed)
        if blocked is not None:
            return blocked
    elif observed.prerequisite_problems:
        builder.block(EvalCondition.VALIDATED, merge_problems(list(observed.prerequisite_problems)))
        return EvalDecision((), builder, BLOCKED_SECONDS)
    if observed.engines is None:
        builder.condition(EvalCondition.MODEL_READY, "True", EvalReason.ENDPOINT_GIVEN)
        return _follow_shards(spec, builder, observed)
    return _supervise_engines(spec, builder, observed) or _follow_shards(spec, builder, observed)


def _prepare(spec: SweEvalSpec, builder: EvalStatusBuilder, observed: EvalObservation) -> EvalDecision | None:
    """Check what must be good before any resource is taken; None when it is."""
    if observed.leftovers:
        text = f"{observed.leftovers} objects of an earlier evaluation of this name are being deleted"
        builder.block(EvalCondition.VALIDATED, Problem(EvalReason.NAME_IN_USE, text))
        return EvalDecision((), builder, STARTING_SECONDS)
    capacity = observed.capacity_problem
    problems = blocking_problems([*observed.prerequisite_problems, capacity])
    if problems:
        builder.block(EvalCondition.VALIDATED, merge_problems(problems))
        return EvalDecision((EvalAction.DELETE_PREFLIGHT,), builder, BLOCKED_SECONDS)
    builder.condition(EvalCondition.VALIDATED, "True", EvalReason.VALID, validated_message(spec))
    if capacity is None:
        builder.condition(EvalCondition.CAPACITY, "True", EvalReason.CAPACITY_MATCHED)
    else:
        builder.condition(EvalCondition.CAPACITY, "False", capacity.reason, capacity.message)
    builder.status.checkpoint = observed.checkpoint
    if observed.image_set_problem is not None:
        builder.block(EvalCondition.IMAGES_READY, observed.image_set_problem)
        return EvalDecision((), builder, BLOCKED_SECONDS)
    preflight = observed.preflight
    if preflight is None:
        builder.condition(
            EvalCondition.IMAGES_READY, "False", EvalReason.PREFLIGHT, "pulling images, looking for sources"
        )
        builder.phase("Starting")
        return EvalDecision((EvalAction.CREATE_PREFLIGHT,), builder, STARTING_SECONDS)
    if preflight.state == "passed":
        builder.condition(EvalCondition.IMAGES_READY, "True", EvalReason.IMAGES_PULLED)
        return None
    return await_preflight(builder, preflight, EvalAction.DELETE_PREFLIGHT)


def _supervise_engines(spec: SweEvalSpec, builder: EvalStatusBuilder, observed: EvalObservation) -> EvalDecision | None:
    """Start the engines and supervise them; None when shards may run."""
    engines, status = observed.engines, builder.status
    assert engines is not None
    if engines.cluster is None:
        if status.submission is not None:
            return _engines_lost(spec, builder, observed, "their RayCluster was deleted")
        if engines.pods:
            return EvalDecision((), builder, STARTING_SECONDS)  # the earlier ones are still ending
        builder.condition(
            EvalCondition.MODEL_READY, "False", EvalReason.CLUSTER_CREATED, "KubeRay creates the Ray Pods"
        )
        builder.phase("Starting")
        return EvalDecision((EvalAction.ENSURE_ACCOUNT, EvalAction.CREATE_ENGINES), builder, STARTING_SECONDS)
    if "deletionTimestamp" in engines.cluster["metadata"]:
        return EvalDecision((), builder, STARTING_SECONDS)
    driver = engines.driver
    if driver.phase in ("failed", "succeeded"):
        return _engines_lost(spec, builder, observed, driver.message or "the process that keeps them has ended")
    if status.submission is None:
        return _submit(builder, engines)
    if driver.phase == "absent":
        return _engines_lost(spec, builder, observed, "the Ray head was restarted and has lost them")
    if driver.phase == "unreachable":
        if not any(is_running(pod) for pod in head_pods(engines.pods)):
            return _engines_lost(spec, builder, observed, "the Ray head Pod is gone or has ended")
        if engines.unreachable_seconds > UNREACHABLE_TIMEOUT_SECONDS:
            return _engines_lost(spec, builder, observed, f"{driver.message} (for {engines.unreachable_seconds:.0f} s)")
    return _follow_engines(builder, observed, engines)


def _submit(builder: EvalStatusBuilder, engines: ObservedEngines) -> EvalDecision:
    problem = cluster_problem(engines.cluster or {}, engines.pods)
    missing = missing_pods(engines.cluster or {}, engines.pods)
    waiting = "; ".join(["the Ray Pods start", *missing, *sidecars_not_ready(engines.pods, "ray-")])
    reason, text = (problem.reason, problem.message) if problem else (EvalReason.CLUSTER_STARTING, waiting)
    builder.condition(EvalCondition.MODEL_READY, "False", reason, text)
    builder.phase("Blocked" if problem else "Starting")
    if engines.driver.phase == "absent":
        return EvalDecision((EvalAction.SUBMIT,), builder, STARTING_SECONDS)
    if engines.driver.phase != "unreachable":
        builder.status.submission = engines.submission
    return EvalDecision((), builder, STARTING_SECONDS)


def _follow_engines(
    builder: EvalStatusBuilder, observed: EvalObservation, engines: ObservedEngines
) -> EvalDecision | None:
    """None when shards may run. Running shards go on while an engine is replaced; they retry what it cost them."""
    if engines.serving:
        builder.condition(EvalCondition.MODEL_READY, "True", EvalReason.ENGINES_SERVING)
        return None
    problem = cluster_problem(engines.cluster or {}, engines.pods)
    waiting = "; ".join(["the engines load the model", *missing_pods(engines.cluster or {}, engines.pods)])
    reason, text = (problem.reason, problem.message) if problem else (EvalReason.ENGINES_STARTING, waiting)
    builder.condition(EvalCondition.MODEL_READY, "False", reason, text)
    if observed.shards is not None:
        return None
    builder.phase("Blocked" if problem else "Starting")
    return EvalDecision((), builder, STARTING_SECONDS)


def _engines_lost(
    spec: SweEvalSpec, builder: EvalStatusBuilder, observed: EvalObservation, message: str
) -> EvalDecision:
    """The engines are gone: stop the shards, then start new engines or fail."""
    final = observed.engines is not None and observed.engines.driver.exit_code == EXIT_NO_RETRY
    if final or (builder.status.failures or 0) >= spec.retries:
        text = f"engines: {message}" + ("" if final else f" (spec.retries is {spec.retries})")
        return _finish(builder, EvalCondition.FAILED, EvalReason.ENGINES_LOST, text)
    builder.engines_lost(message)
    shards = (EvalAction.DELETE_SHARDS,) if observed.shards else ()
    return EvalDecision((*shards, *_delete_engines(observed)), builder, STARTING_SECONDS)


def _follow_shards(spec: SweEvalSpec, builder: EvalStatusBuilder, observed: EvalObservation) -> EvalDecision:
    if observed.shards is None or "deletionTimestamp" in observed.shards["metadata"]:
        builder.phase("Starting")
        if observed.shards or any(pod["metadata"]["labels"].get(ROLE_LABEL) == ROLE_SHARD for pod in observed.pods):
            return EvalDecision((), builder, STARTING_SECONDS)  # the earlier ones are still ending
        actions = (EvalAction.ENSURE_ACCOUNT, EvalAction.CREATE_SHARDS, EvalAction.DELETE_PREFLIGHT)
        return EvalDecision(actions, builder, STARTING_SECONDS)
    builder.status.shards_done = int((observed.shards.get("status") or {}).get("succeeded") or 0)
    if job_condition(observed.shards, "Failed"):
        return _finish(
            builder, EvalCondition.FAILED, EvalReason.SHARDS_FAILED, failure_message(observed.shards, observed.pods)
        )
    problem = pod_problem(observed.pods) or observed.pod_refusal
    text = problem.message if problem else f"{builder.status.shards_done} of {spec.shards} shards done"
    builder.condition(EvalCondition.RUNNING, "True", problem.reason if problem else EvalReason.SHARDS_RUNNING, text)
    builder.phase("Running")
    return EvalDecision((), builder, RUNNING_SECONDS)


def _follow_merge(builder: EvalStatusBuilder, observed: EvalObservation) -> EvalDecision:
    assert observed.merge is not None
    if job_condition(observed.merge, "Failed"):
        return _finish(
            builder, EvalCondition.FAILED, EvalReason.MERGE_FAILED, failure_message(observed.merge, observed.pods)
        )
    if job_condition(observed.merge, "Complete") and observed.merged_progress is not None:
        builder.set_totals(observed.merged_progress)
        status = builder.status
        text = f"{status.resolved} of {status.done} samples resolved, {status.errors} without a result"
        return _finish(builder, EvalCondition.COMPLETE, EvalReason.ALL_RESULTS, text)
    if observed.pod_refusal is not None:
        builder.condition(EvalCondition.RUNNING, "True", observed.pod_refusal.reason, observed.pod_refusal.message)
    builder.phase("Merging")
    return EvalDecision(_delete_engines(observed), builder, STARTING_SECONDS)


def _delete_engines(observed: EvalObservation) -> tuple[EvalAction, ...]:
    engines = observed.engines
    alive = engines and engines.cluster and "deletionTimestamp" not in engines.cluster["metadata"]
    return (EvalAction.DELETE_ENGINES,) if alive else ()


def _finish(builder: EvalStatusBuilder, outcome: str, reason: str, message: str) -> EvalDecision:
    builder.finish(outcome, reason, message)
    return EvalDecision((), builder, 0)
