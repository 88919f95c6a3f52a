"""What one operator process remembers of a group beyond the objects themselves. All of it may be lost in a restart."""

from __future__ import annotations

from dataclasses import dataclass, field

from swerl_api.conditions import SandboxReason

from ..errors import ApiError, Forbidden, NotFound
from .decide import pull_fails
from .parsed import Key, Pod, PodState
from .settings import SandboxSettings
from .status import Writes

QUOTA_REFUSALS = ("exceeded quota", "status unknown for quota")  # of the API server; room, or a count, may come


@dataclass
class Memo:
    """Times are epoch seconds."""

    scope: Key
    writes: Writes = field(default_factory=Writes)
    failing_since: dict[str, float] = field(default_factory=dict)  # Pod UID -> when its image pull began to fail
    finished_at: float | None = None
    gave_up: bool = False  # it will create no more Pods
    rejected: str = ""
    refusal: tuple[str, str] | None = None
    refused_since: float | None = None
    isolated: bool = True

    def follow(self, pod: Pod, now: float) -> None:
        """Keep track of how long a Pod's image has been failing."""
        if pull_fails(pod):
            self.failing_since.setdefault(pod.uid, now)
        elif pod.state is not PodState.STARTING:
            self.failing_since.pop(pod.uid, None)

    def accepted(self) -> None:
        """A Pod was created: whatever stood in the way is gone."""
        self.refusal, self.refused_since = None, None

    def refused(self, error: ApiError, now: float, settings: SandboxSettings) -> bool:
        """A Pod creation was refused; decides whether that can pass. Whether the Pods of others might be taken."""
        # A restarted API server may not know who we are yet.
        waits = isinstance(error, NotFound) or error.status == 401 or "being terminated" in error.message
        forbidden = isinstance(error, Forbidden)
        if forbidden and any(words in error.message for words in QUOTA_REFUSALS):
            self.refusal = (SandboxReason.WAITING_FOR_CAPACITY, f"waiting for quota: {error.message}"[:1024])
            return False
        self.refusal = (SandboxReason.POD_REJECTED, f"the API server refuses the Pod: {error.message}"[:1024])
        if self.refused_since is None:
            self.refused_since = now
        patience = settings.reject_patience if forbidden else 0.0
        if not waits and now - self.refused_since >= patience:
            self.rejected = f"the API server refuses the group's Pods: {error.message}"[:2048]
        return forbidden
