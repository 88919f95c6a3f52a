"""Decides what to do about one group: a pure function of its record and the time.

Guarantees:
* an ordinal below `created` is never created, nor one at or above `replicas`, and never more than `slots` at once;
* nothing is created for a group that is deleted, finished, stopped, not admitted, or not isolated;
* a Pod is deleted only because its group is over, its image cannot be pulled, or its node is lost, never for waiting;
* the same record and time give the same decision, so that it may be taken at any time, any number of times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from swerl_api.conditions import SandboxCondition, SandboxReason
from swerl_api.images import PERMANENT_PULL_REASONS

from .parsed import ParsedGroup, ParsedPod, PodStage
from .settings import SandboxSettings
from .store import GroupRecord

StatusReason = tuple[str, str]  # reason, message


@dataclass(frozen=True)
class PodDeletion:
    """A Pod to delete, and the reason it counts as lost for."""

    pod: ParsedPod
    reason: str
    message: str


@dataclass(frozen=True)
class PodCounts:
    """The counts of a status, and why Pods were lost."""

    created: int
    ready: int
    running: int
    finished: int
    failed: int
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def main_reason(self) -> str:
        """Why most of the lost Pods were lost; '' when none was."""
        return max(self.reasons, key=lambda name: self.reasons[name], default="")

    @property
    def loss_summary(self) -> str:
        """The lost Pods by reason, as in `1 Evicted, 2 OOMKilled`."""
        return ", ".join(f"{number} {reason}" for reason, number in sorted(self.reasons.items()))


@dataclass(frozen=True)
class GroupDecision:
    """What to do now, and when to decide again (None: when something happens)."""

    create: range = range(0)
    delete_pods: tuple[PodDeletion, ...] = ()
    delete_group: str = ""  # reason; its Pods are deleted with it
    finished: StatusReason | None = None
    stop_creation: bool = False  # no more Pods will be created, though fewer than `replicas` were
    requeue_at: float | None = None  # epoch seconds


def count_pods(record: GroupRecord) -> PodCounts:
    """Counts over the Pods that exist and those that are gone."""
    pods = record.pods.values()
    reasons = Counter(record.lost) + Counter(pod.reason for pod in pods if pod.lost)
    completed = sum(1 for pod in pods if pod.stage is PodStage.TERMINATED and not pod.lost)
    return PodCounts(
        created=record.created,
        ready=sum(1 for pod in pods if pod.stage is PodStage.READY),
        running=sum(1 for pod in pods if pod.running),
        finished=completed + record.deleted_pods - record.lost.total(),
        failed=reasons.total(),
        reasons=dict(reasons),
    )


def decide(record: GroupRecord, now: float, settings: SandboxSettings) -> GroupDecision:
    """The next step for the group, whose object exists."""
    group, state = record.existing_group, record.state
    if group.deleting:
        return GroupDecision()
    if state.lease_expired:
        return GroupDecision(delete_group=SandboxReason.LEASE_EXPIRED)
    failure = _creation_failure(record, now, settings)
    finished = _finished(record, failure)
    if finished is not None:
        return _after_end(record, finished, now, settings)
    slots = 0 if failure or not (state.admitted and state.policy_in_place) else state.slots
    return GroupDecision(
        create=range(record.created, min(group.spec.replicas, record.created + slots)),
        delete_pods=_pod_deletions(record, failure, now, settings),
        stop_creation=failure is not None,
        requeue_at=_requeue_at(record, settings),
    )


def _creation_failure(record: GroupRecord, now: float, settings: SandboxSettings) -> StatusReason | None:
    """Why the group will create no more Pods, if so."""
    group = record.existing_group
    if group.spec_error:
        return SandboxReason.POD_REJECTED, f"the spec cannot be read ({group.spec_error}); create the SweSandbox again"
    if record.state.rejection:
        return SandboxReason.POD_REJECTED, record.state.rejection
    if record.was_ready:
        return None
    for pod in record.pods.values():
        if _pull_failed_permanently(record, pod, now, settings):
            return SandboxReason.IMAGE_PULL_FAILED, _pull_message(group, pod)
    if record.lost.get(SandboxReason.IMAGE_PULL_FAILED):
        return SandboxReason.IMAGE_PULL_FAILED, _pull_message(group, None)
    return None


def _finished(record: GroupRecord, creation_failure: StatusReason | None) -> StatusReason | None:
    """Reason and message of the group's end, or None while a Pod lives or is still to be created."""
    group = record.existing_group
    if group.is_condition_true(SandboxCondition.FINISHED) and (written := group.condition(SandboxCondition.FINISHED)):
        return written.reason, written.message
    if record.live_pods:
        return None
    if creation_failure:
        return creation_failure
    if record.created < group.spec.replicas:
        return None
    counts = count_pods(record)
    summary = f"{counts.finished} of {group.spec.replicas} Pods ended by request of their client"
    if counts.failed < group.spec.replicas:
        return SandboxReason.COMPLETED, _with_losses(summary, counts)
    reason = counts.main_reason
    example = loss_message(record, reason)
    return reason, _with_losses("every Pod was lost", counts) + (f"; {example}" if example else "")


def loss_message(record: GroupRecord, reason: str) -> str:
    """The name of a Pod that was lost for `reason` and the message about it: one example, '' when none is known."""
    lost = (pod for pod in record.pods.values() if pod.lost and pod.reason == reason and pod.message)
    present = next(lost, None)
    return present.description if present is not None else record.loss_messages.get(reason, "")


def _with_losses(summary: str, counts: PodCounts) -> str:
    return f"{summary}; lost: {counts.loss_summary}" if counts.loss_summary else summary


def _after_end(record: GroupRecord, finished: StatusReason, now: float, settings: SandboxSettings) -> GroupDecision:
    since = record.state.finished_at if record.state.finished_at is not None else now
    expiry = since + settings.finished_ttl
    if now >= expiry:
        return GroupDecision(delete_group=finished[0], finished=finished)
    return GroupDecision(finished=finished, requeue_at=expiry)


def _pod_deletions(
    record: GroupRecord, creation_failure: StatusReason | None, now: float, settings: SandboxSettings
) -> tuple[PodDeletion, ...]:
    deletions: list[PodDeletion] = []
    for pod in record.pods.values():
        if pod.stage is PodStage.TERMINATING:
            if now - (pod.terminating_since or now) >= settings.termination_timeout:
                reason = pod.disruption or SandboxReason.NODE_LOST
                deletions.append(PodDeletion(pod, reason, "its node stopped answering"))
        elif creation_failure and pod.live:
            deletions.append(PodDeletion(pod, *creation_failure))
        elif _pull_failed_permanently(record, pod, now, settings):
            message = _pull_message(record.existing_group, pod)
            deletions.append(PodDeletion(pod, SandboxReason.IMAGE_PULL_FAILED, message))
    return tuple(deletions)


def _pull_failed_permanently(record: GroupRecord, pod: ParsedPod, now: float, settings: SandboxSettings) -> bool:
    if not pod.start_fails:
        return False
    since = record.state.pull_failing_since.get(pod.uid, now)
    return pod.reason in PERMANENT_PULL_REASONS or now - since >= settings.image_pull_timeout


def _pull_message(group: ParsedGroup, pod: ParsedPod | None) -> str:
    cause = f" ({pod.reason}: {pod.message})" if pod is not None else ""
    fix = "check its name and tag, push it, rewrite its registry, or give imagePullSecrets"
    if group.spec.image_pull_policy == "Never":
        fix = "imagePullPolicy is Never and the node does not have it: bring it there with a SweImageSet"
    return f"image {group.spec.image} cannot be used{cause}; {fix}"[:2048]


def _requeue_at(record: GroupRecord, settings: SandboxSettings) -> float | None:
    times = [since + settings.image_pull_timeout for since in record.state.pull_failing_since.values()]
    times += [
        pod.terminating_since + settings.termination_timeout
        for pod in record.pods.values()
        if pod.stage is PodStage.TERMINATING and pod.terminating_since is not None
    ]
    return min(times, default=None)
