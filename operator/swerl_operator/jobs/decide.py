"""Decides the next step for one SweRLJob: a pure function of its spec, its status and what was observed.

Guarantees: the same observation gives the same decision, so a crash between any two writes changes nothing; an attempt
takes resources only after prerequisites, capacity, layout and preflight are good and nothing of earlier attempts is
left; a failed attempt is counted once.
"""

from __future__ import annotations

from enum import Enum, auto

from swerl_api import JobCondition, JobReason, SweRLJobSpec, SweRLJobStatus, is_condition_true
from swerl_kube import Json

from ..checks.pods import cluster_problem, disrupted_pods, missing_pods, sidecars_not_ready
from ..checks.prerequisites import validated_message
from ..decision import Decision, await_preflight, clean_up, deadline_message, stop
from ..problem import Problem, blocking_problems, merge_problems
from ..ray.jobs import EXIT_NO_RETRY, UNREACHABLE, UNREACHABLE_TIMEOUT_SECONDS, DriverState
from ..ray.pods import head_pods, is_ready, is_running
from ..requeue import BLOCKED_SECONDS, RUNNING_SECONDS, STARTING_SECONDS, seconds_left
from ..status_builder import is_finished
from ..times import age
from .manifests import downloads_model
from .observe import JobObservation
from .status import JobStatusBuilder

STOP_TIMEOUT_SECONDS = 120.0  # for Pods of an earlier attempt to end; then their node counts as lost


class JobAction(Enum):
    """What `JobActions` performs, in this order."""

    DELETE_EVERYTHING = auto()  # of every attempt: clusters, preflight, sandboxes, grading Jobs
    DELETE_OTHERS = auto()  # the same, of every attempt but the current one
    DELETE_PREFLIGHT = auto()
    ENSURE_ACCOUNT = auto()  # ServiceAccount, RoleBinding, job file
    CREATE_PREFLIGHT = auto()
    CREATE_CLUSTER = auto()
    SUBMIT = auto()
    DELETE_JOB = auto()


JobDecision = Decision[JobAction, JobStatusBuilder]


def decide(spec: SweRLJobSpec, status: SweRLJobStatus, generation: int, observed: JobObservation) -> JobDecision:
    """The next step of the job."""
    builder = JobStatusBuilder(status, generation, observed.now)
    if is_finished(status):
        if observed.retry_requested and is_condition_true(status.conditions, JobCondition.FAILED):
            builder.retry()
            return JobDecision((), builder, 0)
        return clean_up(spec, builder, observed.leftovers, JobAction.DELETE_EVERYTHING, JobAction.DELETE_JOB)
    if spec.suspend:
        builder.suspend()
        return stop(builder, observed.leftovers, JobAction.DELETE_EVERYTHING)
    remaining = seconds_left(spec.active_deadline_seconds, status.start_time, observed.now)
    if remaining is not None and remaining <= 0:
        text = deadline_message(spec, status.start_time)
        builder.finish(JobCondition.FAILED, JobReason.DEADLINE_EXCEEDED, text)
        return JobDecision((), builder, 0)
    return _advance(spec, builder, observed).within(remaining)


def _advance(spec: SweRLJobSpec, builder: JobStatusBuilder, observed: JobObservation) -> JobDecision:
    if not builder.previous.attempt or is_condition_true(builder.previous.conditions, JobCondition.SUSPENDED):
        if builder.previous.attempt:
            builder.condition(JobCondition.SUSPENDED, "False", JobReason.RESUMED, "spec.suspend is false again")
        builder.start_attempt(JobReason.CLUSTER_STARTING, "the attempt's RayCluster is created next")
        return JobDecision((), builder, 0)
    if observed.cluster is not None:
        builder.status.ray_cluster = observed.cluster["metadata"]["name"]
        return _follow_driver(spec, builder, observed)
    if builder.previous.ray_cluster or builder.previous.submission:
        return _failed(spec, builder, JobReason.HEAD_LOST, f"RayCluster {builder.previous.ray_cluster} was deleted")
    return _start(spec, builder, observed)


def _start(spec: SweRLJobSpec, builder: JobStatusBuilder, observed: JobObservation) -> JobDecision:
    """Check, run the preflight, then create the RayCluster."""
    delete_others = (JobAction.DELETE_OTHERS,) if observed.leftovers else ()
    if observed.leftovers and age(builder.previous.attempt_time, observed.now) < STOP_TIMEOUT_SECONDS:
        text = f"waiting for {observed.leftovers} objects of earlier attempts to end"
        builder.condition(JobCondition.CLUSTER_READY, "False", JobReason.STOPPING, text)
        return JobDecision(delete_others, builder, STARTING_SECONDS)
    capacity = observed.capacity_problem
    problems = blocking_problems([*(observed.prerequisite_problems or ()), capacity])
    if problems:
        builder.block(JobCondition.VALIDATED, merge_problems(problems))
        if observed.preflight is not None and observed.preflight.state == "passed":
            builder.condition(JobCondition.IMAGES_READY, "True", JobReason.IMAGES_PULLED)
            return JobDecision(delete_others, builder, BLOCKED_SECONDS)  # it stays: the sizes of the model are in it
        return JobDecision((*delete_others, JobAction.DELETE_PREFLIGHT), builder, BLOCKED_SECONDS)
    builder.condition(JobCondition.VALIDATED, "True", JobReason.VALID, validated_message(spec))
    _set_capacity_condition(spec, builder, capacity)
    if observed.image_set_problem is not None:
        builder.block(JobCondition.IMAGES_READY, observed.image_set_problem)
        return JobDecision(delete_others, builder, BLOCKED_SECONDS)
    return _preflight(spec, builder, observed, delete_others)


def _preflight(
    spec: SweRLJobSpec, builder: JobStatusBuilder, observed: JobObservation, delete_others: tuple[JobAction, ...]
) -> JobDecision:
    preflight = observed.preflight
    builder.phase("Retrying" if builder.previous.failures else "Starting")
    if preflight is None:
        text = "pulling images, looking for sources" + (", downloading models" if downloads_model(spec) else "")
        builder.condition(JobCondition.IMAGES_READY, "False", JobReason.PREFLIGHT, text)
        return JobDecision(
            (*delete_others, JobAction.ENSURE_ACCOUNT, JobAction.CREATE_PREFLIGHT), builder, STARTING_SECONDS
        )
    if preflight.state == "passed":
        builder.condition(JobCondition.IMAGES_READY, "True", JobReason.IMAGES_PULLED)
        actions = (JobAction.ENSURE_ACCOUNT, JobAction.CREATE_CLUSTER, JobAction.DELETE_PREFLIGHT)
        builder.condition(
            JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_CREATED, "KubeRay creates the Ray Pods"
        )
        return JobDecision((*delete_others, *actions), builder, STARTING_SECONDS)
    return await_preflight(builder, preflight, JobAction.DELETE_PREFLIGHT)


def _follow_driver(spec: SweRLJobSpec, builder: JobStatusBuilder, observed: JobObservation) -> JobDecision:
    """A RayCluster exists: submit the driver, then follow it."""
    _set_cluster_condition(builder, observed)
    driver = observed.driver or UNREACHABLE
    if driver.phase == "succeeded":
        builder.finish(
            JobCondition.COMPLETE, JobReason.DRIVER_SUCCEEDED, f"attempt {builder.previous.attempt} finished"
        )
        return JobDecision((), builder, 0)
    if driver.phase == "failed":
        # A checkpoint proves that the input was valid before: its volume may be available again at the next attempt.
        final = driver.exit_code == EXIT_NO_RETRY and not builder.previous.last_checkpoint
        message = "; ".join([driver.message or "the driver failed", *_missing(observed)])
        return _failed(spec, builder, JobReason.DRIVER_FAILED, message, final=final)
    if builder.previous.submission is None:
        return _submit(builder, observed, driver)
    if driver.phase == "absent":
        return _failed(spec, builder, JobReason.HEAD_LOST, "the Ray head was restarted and has lost the driver")
    if driver.phase == "unreachable":
        return _wait_for_head(spec, builder, observed, driver)
    reason = JobReason.DRIVER_RUNNING if driver.phase == "running" else JobReason.DRIVER_SUBMITTED
    builder.condition(JobCondition.TRAINING, "True", reason)
    _set_learning_condition(builder)
    builder.phase("Training")
    return JobDecision((), builder, RUNNING_SECONDS)


def _submit(builder: JobStatusBuilder, observed: JobObservation, driver: DriverState) -> JobDecision:
    if driver.phase == "unreachable":
        builder.phase(
            "Blocked" if _cluster_problem(observed) else "Retrying" if builder.status.failures else "Starting"
        )
        return JobDecision((), builder, STARTING_SECONDS)
    if driver.phase == "absent":
        return JobDecision((JobAction.SUBMIT,), builder, STARTING_SECONDS)
    builder.status.submission = observed.submission
    builder.condition(JobCondition.TRAINING, "True", JobReason.DRIVER_SUBMITTED)
    builder.phase("Training")
    return JobDecision((), builder, STARTING_SECONDS)


def _wait_for_head(
    spec: SweRLJobSpec, builder: JobStatusBuilder, observed: JobObservation, driver: DriverState
) -> JobDecision:
    heads = head_pods(observed.pods)
    if not any(is_running(pod) for pod in heads):
        text = "; ".join(["the Ray head Pod is gone or has ended", *disrupted_pods(heads)])
        return _failed(spec, builder, JobReason.HEAD_LOST, text)
    if observed.unreachable_seconds > UNREACHABLE_TIMEOUT_SECONDS:
        text = f"{driver.message or 'Ray does not answer'} (for {observed.unreachable_seconds:.0f} s)"
        return _failed(spec, builder, JobReason.HEAD_LOST, text)
    return JobDecision((), builder, STARTING_SECONDS)


def _failed(
    spec: SweRLJobSpec, builder: JobStatusBuilder, reason: str, message: str, *, final: bool = False
) -> JobDecision:
    """The current attempt is over; start the next one, or fail the job."""
    status = builder.status
    status.failures = (status.failures or 0) + 1
    text = f"attempt {status.attempt}: {message}"
    if final:
        builder.finish(JobCondition.FAILED, reason, f"{text} (the driver asks for no further attempt)")
    elif status.failures > spec.retries:
        text = f"{text} (after {status.failures} attempts; spec.retries is {spec.retries})"
        builder.finish(JobCondition.FAILED, JobReason.RETRIES_EXHAUSTED if spec.retries else reason, text)
    else:
        builder.start_attempt(reason, text)
    return JobDecision((), builder, 0)


def _set_cluster_condition(builder: JobStatusBuilder, observed: JobObservation) -> None:
    problem = _cluster_problem(observed)
    expected = _expected_pods(observed.cluster or {})
    count = sum(is_ready(pod) for pod in observed.pods)
    disrupted = disrupted_pods(observed.pods)
    if problem is not None:
        text = "; ".join([problem.message, *disrupted])
        builder.condition(JobCondition.CLUSTER_READY, "False", problem.reason, text)
    elif (observed.cluster or {}).get("spec", {}).get("suspend"):
        text = "the RayCluster is suspended, as by Kueue until its queue has room"
        builder.condition(JobCondition.CLUSTER_READY, "False", JobReason.WAITING_FOR_QUEUE, text)
    elif count < expected:
        missing = missing_pods(observed.cluster or {}, observed.pods)
        waiting = [*missing, *sidecars_not_ready(observed.pods, "ray-")]
        text = "; ".join([f"{count} of {expected} Ray Pods are ready", *waiting])
        reason = JobReason.POD_DISRUPTED if disrupted else JobReason.CLUSTER_STARTING
        builder.condition(JobCondition.CLUSTER_READY, "False", reason, text)
    else:
        builder.condition(JobCondition.CLUSTER_READY, "True", JobReason.CLUSTER_RUNNING)


def _cluster_problem(observed: JobObservation) -> Problem | None:
    return cluster_problem(observed.cluster, observed.pods) if observed.cluster else None


def _missing(observed: JobObservation) -> list[str]:
    """Ray Pods that are not ready, for the message of a failed attempt."""
    problem, missing = _cluster_problem(observed), missing_pods(observed.cluster or {}, observed.pods)
    return [f"Ray Pods not ready: {'; '.join([*missing, *([problem.message] if problem else [])])}"] if missing else []


def _set_learning_condition(builder: JobStatusBuilder) -> None:
    """Say whether the last step changed the weights; nothing before the first step."""
    count = builder.previous.steps_without_signal
    if count == 0:
        builder.condition(JobCondition.LEARNING, "True", JobReason.WEIGHTS_CHANGED)
    elif count:
        text = (
            f"the last {count} steps changed no weight: no group had rewards that differ, or gradients were not finite;"
            " choose tasks that the model solves sometimes, or raise algorithm.groupSize"
        )
        builder.condition(JobCondition.LEARNING, "False", JobReason.NO_SIGNAL, text)


def _set_capacity_condition(spec: SweRLJobSpec, builder: JobStatusBuilder, warning: Problem | None) -> None:
    """False warns: the nodes are too few at present, or one step's episodes exceed the limit of sandboxes."""
    if warning is not None:
        builder.condition(JobCondition.CAPACITY, "False", warning.reason, warning.message)
        return
    batch, limit = spec.algorithm.prompts_per_step * spec.algorithm.group_size, spec.sandbox.max_concurrent
    if batch <= limit:
        builder.condition(JobCondition.CAPACITY, "True", JobReason.CAPACITY_MATCHED)
        return
    text = (
        f"one step has {batch} episodes (promptsPerStep * groupSize), sandbox.maxConcurrent allows {limit} at once: "
        "the rest of each step waits; raise maxConcurrent if the nodes have room"
    )
    builder.condition(JobCondition.CAPACITY, "False", JobReason.SANDBOXES_LIMITED, text)


def _expected_pods(cluster: Json) -> int:
    groups = cluster.get("spec", {}).get("workerGroupSpecs", [])
    return 1 + sum(int(group.get("replicas", 0)) for group in groups)
