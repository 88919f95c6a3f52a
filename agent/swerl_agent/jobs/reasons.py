"""Why a job does not train, from its conditions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from swerl_api import Condition, JobCondition, JobReason, SweRLJobStatus, find_condition
from swerl_kube import Json

# Conditions that a job passes on its way, in their order.
STAGES = (JobCondition.VALIDATED, JobCondition.IMAGES_READY, JobCondition.CLUSTER_READY, JobCondition.TRAINING)
WARNINGS = (JobCondition.CAPACITY, JobCondition.LEARNING)
UNSEEN = "NotSeenByOperator"
UNSEEN_SECONDS = 30.0


@dataclass(frozen=True)
class Cause:
    """One reason, in words that say what to do."""

    reason: str  # a condition's reason
    message: str
    since: str | None = None  # RFC 3339
    warning: bool = False  # the job goes on

    @classmethod
    def of(cls, condition: Condition, message: str = "", *, warning: bool = False) -> Cause:
        """The cause that a condition gives."""
        return cls(condition.reason, message or condition.message, condition.last_transition_time, warning)


WORDS = {
    JobReason.PREFLIGHT: "a preflight Pod pulls the images and looks for the sources before GPUs are taken",
    JobReason.CLUSTER_CREATED: "the RayCluster was created and KubeRay starts its Pods",
    JobReason.CLUSTER_STARTING: "the Ray Pods start",
    JobReason.STOPPING: "Pods of the attempt before are still ending; the next attempt starts when they are gone",
    JobReason.DRIVER_SUBMITTED: "the driver was submitted and has not started yet",
    JobReason.WAITING_FOR_QUEUE: "Kueue has not admitted the RayCluster: its queue has no room yet",
    JobReason.CLUSTER_DELETED: "the RayCluster was deleted",
}


def status_of(job: Json) -> SweRLJobStatus:
    """Its status, empty before an operator has seen it."""
    return SweRLJobStatus.model_validate(job.get("status") or {})


def why(job: Json) -> Cause | None:
    """The first reason for which the job does not train, or the first warning while it does; None without either."""
    causes = causes_of(job)
    return causes[0] if causes else None


def causes_of(job: Json) -> list[Cause]:
    """Every reason for which the job does not train, then warnings. Empty for one that trains, or is complete."""
    status = status_of(job)
    warnings = [
        Cause.of(found, warning=True)
        for type in WARNINGS
        if (found := find_condition(status.conditions, type)) and found.status == "False"
    ]
    if (generation := job["metadata"].get("generation")) and status.observed_generation is None:
        return [Cause(UNSEEN, _unseen(job), job["metadata"].get("creationTimestamp"))]
    if status.phase == "Complete":
        return []
    if status.phase in ("Failed", "Suspended"):
        found = find_condition(status.conditions, status.phase)
        return [Cause.of(found, _ended(job, status, found))] if found else []
    if status.observed_generation is not None and generation and status.observed_generation < generation:
        text = f"the operator has not seen the newest change of the spec (generation {generation})"
        warnings = [Cause(UNSEEN, text, warning=True), *warnings]
    return [*_blocking(status), *warnings]


def _blocking(status: SweRLJobStatus) -> list[Cause]:
    """Stages that are not passed; a training job has none."""
    training = find_condition(status.conditions, JobCondition.TRAINING)
    if training is not None and training.status == "True":
        return []
    found = [each for type in STAGES if (each := find_condition(status.conditions, type)) and each.status == "False"]
    failed_before = status.failures and training is not None and training.message
    causes = [Cause.of(each, _explained(each)) for each in found if each.type != JobCondition.TRAINING]
    if failed_before and training is not None:
        causes.append(Cause.of(training, f"the attempt before failed: {training.message}"))
    return causes or [Cause.of(each, _explained(each)) for each in found]


def _explained(condition: Condition) -> str:
    words = WORDS.get(condition.reason, "")
    return ": ".join(filter(None, [words, condition.message])) or f"{condition.type} is {condition.status}"


def _ended(job: Json, status: SweRLJobStatus, condition: Condition) -> str:
    name = job["metadata"]["name"]
    if status.phase == "Suspended":
        return f"spec.suspend is true; `swerl resume {name}` starts the next attempt from the newest checkpoint"
    if condition.reason == JobReason.DEADLINE_EXCEEDED:
        return condition.message
    remedy = f"`swerl logs {name}` shows the driver's last lines, `swerl retry {name}` starts another attempt"
    return f"{condition.message}; {remedy}"


def _unseen(job: Json) -> str:
    namespace = job["metadata"].get("namespace")
    return (
        f"no operator has seen this job: none runs, or none serves namespace {namespace}; `swerl doctor -n {namespace}`"
        " says which"
    )


def seconds_since(time: str | None, now: datetime) -> float | None:
    """Seconds since `time` (RFC 3339); None without it."""
    return None if time is None else (now - datetime.fromisoformat(time)).total_seconds()
