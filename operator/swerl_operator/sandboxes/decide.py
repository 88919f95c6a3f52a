"""What to do about one group: a pure function of what is known.

Guarantees:
* an ordinal below `created` is never created, nor one at or above `replicas`, and never more than `places` at once;
* nothing is created for a group that is deleted, finished, given up, not admitted, or not isolated;
* a Pod is deleted only because its group is over, its image cannot be had, or its node is lost, never for waiting;
* the same view always gives the same decision, so that it may be taken at any time, any number of times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from swerl_api.conditions import SandboxReason
from swerl_api.images import PULL_HOPELESS, PULL_REASONS, START_REASONS

from .parsed import Group, Pod, PodState, said_of
from .settings import SandboxSettings


@dataclass(frozen=True)
class View:
    """All that a decision depends on; times are epoch seconds."""

    group: Group
    pods: Mapping[int, Pod]
    created: int
    lost: Mapping[str, int]  # Pods that are gone and were lost, by reason
    ever_ready: bool
    admitted: bool
    isolated: bool
    places: int
    lease_expired: bool
    rejected: str  # why the API server refuses the group's Pods for good, or ''
    refusal: tuple[str, str] | None  # reason and message of a refusal that may pass
    failing_since: Mapping[str, float]  # Pod UID -> when its image pull began to fail
    finished_at: float | None
    now: float
    others_first: bool = False  # it waits for the Pods of other jobs, not for those of its own
    last_words: Mapping[str, str] = field(default_factory=dict)  # reason -> what was said of a Pod lost for it
    cpu_seconds: float = 0.0  # used by its Pods, as sampled
    pulls: Mapping[str, float] = field(default_factory=dict)  # Pod UID -> seconds its image's pull took, if heard
    queue_words: str = ""  # why the queue that gates its Pods does not admit them
    doubt: str | None = None  # see Record.doubt


@dataclass(frozen=True)
class Condemned:
    """A Pod to delete, and the reason it counts as lost for."""

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True)
class Tally:
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
    def losses(self) -> str:
        """The lost Pods in words, as in `1 Evicted, 2 OOMKilled`."""
        return ", ".join(f"{number} {reason}" for reason, number in sorted(self.reasons.items()))


@dataclass(frozen=True)
class Decision:
    """What to do now, and when to look again (None: when something happens)."""

    create: range = range(0)
    condemn: tuple[Condemned, ...] = ()
    delete_group: str = ""  # reason; its Pods go with it
    finished: tuple[str, str] | None = None  # reason, message
    gave_up: bool = False  # no more Pods will be created, though fewer than `replicas` were
    wake: float | None = None  # epoch seconds


def tally(view: View) -> Tally:
    """Counts over the Pods that exist and those that are gone."""
    pods = view.pods.values()
    reasons = Counter(view.lost) + Counter(pod.reason for pod in pods if pod.lost)
    gone = max(0, view.created - len(view.pods))
    ended_well = sum(1 for pod in pods if pod.state is PodState.ENDED and not pod.lost)
    return Tally(
        created=view.created,
        ready=sum(1 for pod in pods if pod.state is PodState.READY),
        running=sum(1 for pod in pods if pod.running),
        finished=ended_well + gone - sum(view.lost.values()),
        failed=reasons.total(),
        reasons=dict(reasons),
    )


def outstanding(view: View) -> int:
    """Pods the group still has or will create."""
    return max(0, view.group.spec.replicas - view.created) + sum(1 for pod in view.pods.values() if pod.live)


def decide(view: View, settings: SandboxSettings) -> Decision:
    """The next step for the group."""
    if view.group.deleting:
        return Decision()
    if view.lease_expired:
        return Decision(delete_group=SandboxReason.LEASE_EXPIRED)
    given_up = _given_up(view, settings)
    finished = _finished(view, given_up)
    if finished is not None:
        return _after_end(view, finished, settings)
    condemned = _condemned(view, given_up, settings)
    wishes = 0 if given_up or not (view.admitted and view.isolated) else view.places
    stop = min(view.group.spec.replicas, view.created + wishes)
    return Decision(
        create=range(view.created, stop),
        condemn=condemned,
        gave_up=given_up is not None,
        wake=_wake(view, settings),
    )


def _given_up(view: View, settings: SandboxSettings) -> tuple[str, str] | None:
    """Why the group will create no more Pods, if so."""
    if view.group.problem:
        return SandboxReason.POD_REJECTED, f"the spec cannot be read ({view.group.problem}); create it anew"
    if view.rejected:
        return SandboxReason.POD_REJECTED, view.rejected
    if view.ever_ready:
        return None
    for pod in view.pods.values():
        if _pull_is_hopeless(view, pod, settings):
            return SandboxReason.IMAGE_PULL_FAILED, _pull_message(view.group, pod)
    if view.lost.get(SandboxReason.IMAGE_PULL_FAILED):
        return SandboxReason.IMAGE_PULL_FAILED, _pull_message(view.group, None)
    return None


def _finished(view: View, given_up: tuple[str, str] | None) -> tuple[str, str] | None:
    """Reason and message of the group's end, or None while a Pod lives or is to come."""
    told = _told_finished(view.group)
    if told is not None:
        return told
    if any(pod.live for pod in view.pods.values()):
        return None
    if given_up:
        return given_up
    if view.created < view.group.spec.replicas:
        return None
    counts = tally(view)
    summary = f"{counts.finished} of {view.group.spec.replicas} Pods ended as their client wished"
    if counts.failed < view.group.spec.replicas:
        return SandboxReason.COMPLETED, _with_losses(summary, counts)
    reason = counts.main_reason
    example = last_words(view, reason)
    return reason, _with_losses("every Pod was lost", counts) + (f"; {example}" if example else "")


def last_words(view: View, reason: str) -> str:
    """Which Pod was lost for `reason` and what was said about it: one example, '' when nothing is known."""
    present = next((pod for pod in view.pods.values() if pod.lost and pod.reason == reason and pod.message), None)
    return said_of(present) if present is not None else view.last_words.get(reason, "")


def _told_finished(group: Group) -> tuple[str, str] | None:
    for condition in group.status.get("conditions") or ():
        if condition.get("type") == "Finished" and condition.get("status") == "True":
            return str(condition.get("reason")), str(condition.get("message") or "")
    return None


def _with_losses(summary: str, counts: Tally) -> str:
    return f"{summary}; lost: {counts.losses}" if counts.losses else summary


def _after_end(view: View, finished: tuple[str, str], settings: SandboxSettings) -> Decision:
    since = view.finished_at if view.finished_at is not None else view.now
    expiry = since + settings.finished_ttl
    if view.now >= expiry:
        return Decision(delete_group=finished[0], finished=finished)
    return Decision(finished=finished, wake=expiry)


def _condemned(view: View, given_up: tuple[str, str] | None, settings: SandboxSettings) -> tuple[Condemned, ...]:
    found: list[Condemned] = []
    for pod in view.pods.values():
        if pod.state is PodState.ENDING:
            if view.now - (pod.ending_since or view.now) >= settings.terminating_patience:
                found.append(Condemned(pod, pod.doomed or SandboxReason.NODE_LOST, "its node stopped answering"))
        elif given_up and pod.live:
            found.append(Condemned(pod, *given_up))
        elif _pull_is_hopeless(view, pod, settings):
            found.append(Condemned(pod, SandboxReason.IMAGE_PULL_FAILED, _pull_message(view.group, pod)))
    return tuple(found)


def pull_fails(pod: Pod) -> bool:
    """Whether the kubelet cannot make this Pod's container for now."""
    return pod.state is PodState.STARTING and pod.reason in PULL_REASONS | START_REASONS


def _pull_is_hopeless(view: View, pod: Pod, settings: SandboxSettings) -> bool:
    if not pull_fails(pod):
        return False
    since = view.failing_since.get(pod.uid, view.now)
    return pod.reason in PULL_HOPELESS or view.now - since >= settings.image_patience


def _pull_message(group: Group, pod: Pod | None) -> str:
    told = f" ({pod.reason}: {pod.message})" if pod is not None else ""
    cure = "check its name and tag, push it, rewrite its registry, or give imagePullSecrets"
    if group.spec.image_pull_policy == "Never":
        cure = "imagePullPolicy is Never and the node does not have it: bring it there with a SweImageSet"
    return f"image {group.spec.image} cannot be used{told}; {cure}"[:2048]


def _wake(view: View, settings: SandboxSettings) -> float | None:
    times = [since + settings.image_patience for since in view.failing_since.values()]
    times += [
        pod.ending_since + settings.terminating_patience
        for pod in view.pods.values()
        if pod.state is PodState.ENDING and pod.ending_since is not None
    ]
    return min(times, default=None)
