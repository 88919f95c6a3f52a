"""What to do next for one SweRLJob: a pure function of its spec, its status and what was observed.

Guarantees: the same observation gives the same decision, so a crash between any two writes changes nothing; an attempt
takes resources only after prerequisites, capacity and preflight are good and nothing of earlier attempts is left; a
failed attempt is counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto

from swerl_api import JobCondition, JobReason, SweRLJobSpec, SweRLJobStatus, holds

from .attempt import Object
from .diagnosis import heads, pod_problem, ready, running
from .draft import Draft
from .preflight import Preflight
from .problem import Problem, joined
from .ray_jobs import Driver

BLOCKED_SECONDS = 15.0  # until a missing prerequisite is looked for again
STARTING_SECONDS = 1.5
RUNNING_SECONDS = 5.0
STOP_PATIENCE_SECONDS = 120.0  # for Pods of an earlier attempt to end; then their node counts as lost
SILENCE_SECONDS = 120.0  # a living head whose dashboard says nothing for this long counts as lost
EXIT_NO_RETRY = 78  # sysexits EX_CONFIG: the driver says that another attempt would fail the same way


class Action(Enum):
    """What the shell does, in this order."""

    DELETE_EVERYTHING = auto()  # of every attempt: clusters, preflight, sandboxes, grading Jobs
    DELETE_OTHERS = auto()  # the same, of every attempt but the current one
    DELETE_PREFLIGHT = auto()
    ENSURE_ACCOUNT = auto()  # ServiceAccount, RoleBinding, job file
    CREATE_PREFLIGHT = auto()
    CREATE_CLUSTER = auto()
    SUBMIT = auto()
    DELETE_JOB = auto()


@dataclass(frozen=True)
class Observed:
    """The world of one job. None means: not looked at, because the decision does not need it."""

    now: datetime
    submission: str = ""  # id of the current attempt's driver
    leftovers: int = 0  # clusters, Pods, sandboxes, grading Jobs of other attempts (of any, once the job is over)
    prerequisites: Sequence[Problem] | None = None
    capacity: Problem | None = None
    images: Problem | None = None  # of the SweImageSet the job waits for
    preflight: Preflight | None = None
    cluster: Object | None = None
    pods: Sequence[Object] = field(default_factory=tuple)  # Ray Pods of the current attempt
    driver: Driver | None = None
    silence: float = 0.0  # seconds since Ray last answered


@dataclass(frozen=True)
class Decision:
    """Actions, then the status to write, then seconds until the next look (None: only when something changes)."""

    actions: tuple[Action, ...]
    draft: Draft
    again: float | None


def decide(spec: SweRLJobSpec, status: SweRLJobStatus, generation: int, seen: Observed) -> Decision:
    """The next step of the job."""
    draft = Draft(status, generation, seen.now)
    if is_over(status):
        return _tidy(spec, status, draft, seen)
    if spec.suspend:
        return _suspend(draft, seen)
    remaining = _deadline(spec, status, seen.now)
    if remaining is not None and remaining <= 0:
        text = f"activeDeadlineSeconds ({spec.active_deadline_seconds} s) passed since {status.start_time}"
        draft.finish(JobCondition.FAILED, JobReason.DEADLINE_EXCEEDED, text)
        return Decision((), draft, 0)
    decision = _advance(spec, status, draft, seen)
    if remaining is None or decision.again is None:
        return decision
    return Decision(decision.actions, decision.draft, min(decision.again, remaining))


def is_over(status: SweRLJobStatus) -> bool:
    """Whether the job is Complete or Failed."""
    return holds(status.conditions, JobCondition.COMPLETE) or holds(status.conditions, JobCondition.FAILED)


def _advance(spec: SweRLJobSpec, status: SweRLJobStatus, draft: Draft, seen: Observed) -> Decision:
    if not status.attempt or holds(status.conditions, JobCondition.SUSPENDED):
        if status.attempt:
            draft.condition(JobCondition.SUSPENDED, "False", JobReason.RESUMED)
        draft.begin(JobReason.CLUSTER_STARTING, "")
        return Decision((), draft, 0)
    if seen.cluster is not None:
        draft.status.ray_cluster = seen.cluster["metadata"]["name"]
        return _watch(spec, status, draft, seen)
    if status.ray_cluster or status.submission:
        return _failed(spec, draft, JobReason.HEAD_LOST, f"RayCluster {status.ray_cluster} was deleted")
    return _start(spec, status, draft, seen)


def _start(spec: SweRLJobSpec, status: SweRLJobStatus, draft: Draft, seen: Observed) -> Decision:
    """From nothing to a RayCluster."""
    clean = (Action.DELETE_OTHERS,) if seen.leftovers else ()
    if seen.leftovers and age(status.attempt_time, seen.now) < STOP_PATIENCE_SECONDS:
        text = f"waiting for {seen.leftovers} objects of earlier attempts to end"
        draft.condition(JobCondition.CLUSTER_READY, "False", JobReason.STOPPING, text)
        return Decision(clean, draft, STARTING_SECONDS)
    obstacles = [*(seen.prerequisites or ()), *([seen.capacity] if seen.capacity else [])]
    if obstacles:
        draft.blocked(JobCondition.VALIDATED, joined(obstacles))
        return Decision((*clean, Action.DELETE_PREFLIGHT), draft, BLOCKED_SECONDS)
    draft.condition(JobCondition.VALIDATED, "True", JobReason.VALID)
    _compare_batch_with_limit(spec, draft)
    if seen.images is not None:
        draft.blocked(JobCondition.IMAGES_READY, seen.images)
        return Decision(clean, draft, BLOCKED_SECONDS)
    return _preflight(status, draft, seen, clean)


def _preflight(status: SweRLJobStatus, draft: Draft, seen: Observed, clean: tuple[Action, ...]) -> Decision:
    checked = seen.preflight
    draft.phase("Retrying" if status.failures else "Starting")
    if checked is None:
        draft.condition(JobCondition.IMAGES_READY, "False", JobReason.PREFLIGHT, "pulling images, looking for sources")
        return Decision((*clean, Action.ENSURE_ACCOUNT, Action.CREATE_PREFLIGHT), draft, STARTING_SECONDS)
    if checked.state == "outdated":
        return Decision((Action.DELETE_PREFLIGHT,), draft, STARTING_SECONDS)
    if checked.state == "passed":
        draft.condition(JobCondition.IMAGES_READY, "True", JobReason.IMAGES_PULLED)
        actions = (Action.ENSURE_ACCOUNT, Action.CREATE_CLUSTER, Action.DELETE_PREFLIGHT)
        draft.condition(JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_CREATED)
        return Decision((*clean, *actions), draft, STARTING_SECONDS)
    if checked.problem is not None:
        draft.blocked(JobCondition.IMAGES_READY, checked.problem)
    if checked.state == "failed":
        return Decision((Action.DELETE_PREFLIGHT,), draft, BLOCKED_SECONDS)
    return Decision((), draft, STARTING_SECONDS)


def _watch(spec: SweRLJobSpec, status: SweRLJobStatus, draft: Draft, seen: Observed) -> Decision:
    """A RayCluster exists: submit the driver, then follow it."""
    _describe_cluster(draft, seen)
    driver = seen.driver or Driver("unreachable")
    if driver.phase == "succeeded":
        draft.finish(JobCondition.COMPLETE, JobReason.DRIVER_SUCCEEDED, f"attempt {status.attempt} finished")
        return Decision((), draft, 0)
    if driver.phase == "failed":
        # Input that a checkpoint was made from is not wrong for good: its volume may be back at the next attempt.
        final = driver.exit_code == EXIT_NO_RETRY and not status.last_checkpoint
        return _failed(spec, draft, JobReason.DRIVER_FAILED, driver.message or "the driver failed", final=final)
    if status.submission is None:
        return _submit(draft, seen, driver)
    if driver.phase == "absent":
        return _failed(spec, draft, JobReason.HEAD_LOST, "the Ray head was restarted and has lost the driver")
    if driver.phase == "unreachable":
        return _await_head(spec, draft, seen, driver)
    reason = JobReason.DRIVER_RUNNING if driver.phase == "running" else JobReason.DRIVER_SUBMITTED
    draft.condition(JobCondition.TRAINING, "True", reason)
    draft.phase("Training")
    return Decision((), draft, RUNNING_SECONDS)


def _submit(draft: Draft, seen: Observed, driver: Driver) -> Decision:
    if driver.phase == "unreachable":
        draft.phase("Blocked" if pod_problem(seen.pods) else "Retrying" if draft.status.failures else "Starting")
        return Decision((), draft, STARTING_SECONDS)
    if driver.phase == "absent":
        return Decision((Action.SUBMIT,), draft, STARTING_SECONDS)
    draft.status.submission = seen.submission
    draft.condition(JobCondition.TRAINING, "True", JobReason.DRIVER_SUBMITTED)
    draft.phase("Training")
    return Decision((), draft, STARTING_SECONDS)


def _await_head(spec: SweRLJobSpec, draft: Draft, seen: Observed, driver: Driver) -> Decision:
    if not any(running(pod) for pod in heads(seen.pods)):
        return _failed(spec, draft, JobReason.HEAD_LOST, "the Ray head Pod is gone or has ended")
    if seen.silence > SILENCE_SECONDS:
        text = f"{driver.message or 'Ray does not answer'} (for {seen.silence:.0f} s)"
        return _failed(spec, draft, JobReason.HEAD_LOST, text)
    return Decision((), draft, STARTING_SECONDS)


def _failed(spec: SweRLJobSpec, draft: Draft, reason: str, message: str, *, final: bool = False) -> Decision:
    """The current attempt is over; start the next one, or give up."""
    status = draft.status
    status.failures = (status.failures or 0) + 1
    text = f"attempt {status.attempt}: {message}"
    if final:
        draft.finish(JobCondition.FAILED, reason, f"{text} (the driver asks for no further attempt)")
    elif status.failures > spec.retries:
        text = f"{text} (after {status.failures} attempts; spec.retries is {spec.retries})"
        draft.finish(JobCondition.FAILED, JobReason.RETRIES_EXHAUSTED if spec.retries else reason, text)
    else:
        draft.begin(reason, text)
    return Decision((), draft, 0)


def _suspend(draft: Draft, seen: Observed) -> Decision:
    draft.suspended()
    if seen.leftovers:
        return Decision((Action.DELETE_EVERYTHING,), draft, STARTING_SECONDS)
    return Decision((), draft, None)


def _tidy(spec: SweRLJobSpec, status: SweRLJobStatus, draft: Draft, seen: Observed) -> Decision:
    """The job is over: nothing of it stays but its conditions, and those only for the time to live."""
    if seen.leftovers:
        return Decision((Action.DELETE_EVERYTHING,), draft, STARTING_SECONDS)
    if spec.ttl_seconds_after_finished is None:
        return Decision((), draft, None)
    remaining = spec.ttl_seconds_after_finished - age(status.completion_time, seen.now)
    return Decision((), draft, remaining) if remaining > 0 else Decision((Action.DELETE_JOB,), draft, None)


def _describe_cluster(draft: Draft, seen: Observed) -> None:
    problem = pod_problem(seen.pods)
    wanted = _wanted_pods(seen.cluster or {})
    count = sum(ready(pod) for pod in seen.pods)
    if problem is not None:
        draft.condition(JobCondition.CLUSTER_READY, "False", problem.reason, problem.message)
    elif (seen.cluster or {}).get("spec", {}).get("suspend"):
        text = "the RayCluster is suspended, as by Kueue until its queue has room"
        draft.condition(JobCondition.CLUSTER_READY, "False", JobReason.WAITING_FOR_QUEUE, text)
    elif count < wanted:
        text = f"{count} of {wanted} Ray Pods are ready"
        draft.condition(JobCondition.CLUSTER_READY, "False", JobReason.CLUSTER_STARTING, text)
    else:
        draft.condition(JobCondition.CLUSTER_READY, "True", JobReason.CLUSTER_RUNNING)


def _compare_batch_with_limit(spec: SweRLJobSpec, draft: Draft) -> None:
    batch, limit = spec.algorithm.prompts_per_step * spec.algorithm.group_size, spec.sandbox.max_concurrent
    if batch <= limit:
        draft.condition(JobCondition.CAPACITY, "True", JobReason.CAPACITY_MATCHED)
        return
    text = (
        f"one step has {batch} episodes (promptsPerStep * groupSize), sandbox.maxConcurrent allows {limit} at once: "
        "the rest of each step waits; raise maxConcurrent if the nodes have room"
    )
    draft.condition(JobCondition.CAPACITY, "False", JobReason.SANDBOXES_LIMITED, text)


def _wanted_pods(cluster: Object) -> int:
    groups = cluster.get("spec", {}).get("workerGroupSpecs", [])
    return 1 + sum(int(group.get("replicas", 0)) for group in groups)


def _deadline(spec: SweRLJobSpec, status: SweRLJobStatus, now: datetime) -> float | None:
    if spec.active_deadline_seconds is None or status.start_time is None:
        return None
    return spec.active_deadline_seconds - age(status.start_time, now)


def age(time: str | None, now: datetime) -> float:
    """Seconds since an RFC 3339 time; 0 for none."""
    if time is None:
        return 0.0
    return (now - datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(UTC)).total_seconds()
