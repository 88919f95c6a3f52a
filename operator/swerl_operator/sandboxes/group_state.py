"""What one operator process knows of a group beyond its objects. A restart may lose all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from swerl_api.conditions import SandboxReason
from swerl_kube import ApiError, Forbidden, NotFound, Unauthorized, WebhookFailed

from .parsed import ParsedPod, PodStage
from .settings import SandboxSettings

QUOTA_MESSAGES = ("exceeded quota", "status unknown for quota")  # of the API server; the quota may have room later


@dataclass
class StatusWrites:
    """How often the status was written, and how urgent the next write is."""

    count: int = 0
    last: float = float("-inf")
    urgency: str | None = None  # of the changes that are not written yet
    since: float = 0.0  # when the urgency became what it is


@dataclass
class SandboxGroupState:
    """Times are epoch seconds."""

    writes: StatusWrites = field(default_factory=StatusWrites)
    pull_failing_since: dict[str, float] = field(default_factory=dict)  # Pod UID -> when its image pull began to fail
    finished_at: float | None = None
    creation_stopped: bool = False  # no more Pods will be created
    rejection: str = ""  # why the API server will never accept the group's Pods, or ''
    refusal: tuple[str, str] | None = None  # reason and message of a refusal that may pass
    refused_since: float | None = None
    policy_in_place: bool = True  # the NetworkPolicy that isolates its Pods, if it needs one

    # Observed before each decision.
    admitted: bool = False
    slots: int = 0  # Pods that it may create now
    waits_for_other_jobs: bool = False  # for their Pods, not for those of its own job
    lease_expired: bool = False
    queue_message: str = ""  # why the queue that gates its Pods does not admit them

    def pod_changed(self, pod: ParsedPod, now: float) -> None:
        """Keep track of how long a Pod's image pull has been failing."""
        if pod.start_fails:
            self.pull_failing_since.setdefault(pod.uid, now)
        elif pod.stage is not PodStage.STARTING:
            self.pull_failing_since.pop(pod.uid, None)

    def pod_accepted(self) -> None:
        """A Pod was created, so refusals are over."""
        self.refusal, self.refused_since = None, None

    def pod_refused(self, error: ApiError | WebhookFailed, now: float, settings: SandboxSettings) -> bool:
        """Record a refusal and decide whether it can pass; True when Pods of other groups may be accepted."""
        # A restarted API server may not know this operator's roles yet.
        passing = isinstance(error, NotFound | Unauthorized | WebhookFailed)
        temporary = passing or "being terminated" in error.message
        forbidden = isinstance(error, Forbidden)
        if forbidden and any(text in error.message for text in QUOTA_MESSAGES):
            self.refusal = (SandboxReason.WAITING_FOR_CAPACITY, f"waiting for quota: {error.message}"[:1024])
            return False
        self.refusal = (SandboxReason.POD_REJECTED, f"the API server refuses the Pod: {error.message}"[:1024])
        if self.refused_since is None:
            self.refused_since = now
        timeout = settings.rejection_timeout if forbidden else 0.0
        if not temporary and now - self.refused_since >= timeout:
            self.rejection = f"the API server refuses the group's Pods: {error.message}"[:2048]
        return forbidden
