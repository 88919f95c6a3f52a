"""Whether drivers are alive, from their Leases.

Guarantees: a Lease counts as expired only when it was read unchanged for its whole duration by *this* clock, so the
driver's clock does not matter; time in which the API server could not be read does not count, because the driver could
not renew either. A Lease that looks long expired when first read gets a short grace period instead of its whole
duration. Pure: time is an argument (any monotonic clock; `wall` is epoch seconds).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from swerl_api.names import LEASE_DURATION_SECONDS

from ..times import parse_time
from ..workqueue import ObjectKey
from .settings import SandboxSettings

MAX_MISSED_POLLS = 3  # after which the time without an answer does not count


class LeaseState(Enum):
    """What is known of a Lease."""

    UNKNOWN = "unknown"
    HELD = "held"
    EXPIRED = "expired"
    MISSING = "missing"


@dataclass
class _TrackedLease:
    state: LeaseState = LeaseState.UNKNOWN
    renewal: tuple[Any, ...] = ()
    expires_at: float = 0.0
    read_at: float | None = None
    next_read_at: float = 0.0


@dataclass
class LeaseTracker:
    """The Leases that groups reference."""

    settings: SandboxSettings
    _tracked: dict[ObjectKey, _TrackedLease] = field(default_factory=dict)

    def state(self, lease: ObjectKey) -> LeaseState:
        """The state when last read."""
        found = self._tracked.get(lease)
        return found.state if found else LeaseState.UNKNOWN

    def track(self, leases: set[ObjectKey]) -> None:
        """Stop watching all others."""
        self._tracked = {lease: self._tracked.get(lease) or _TrackedLease() for lease in leases}

    def to_read(self, now: float) -> list[ObjectKey]:
        """Leases to read now."""
        return [lease for lease, watched in self._tracked.items() if watched.next_read_at <= now]

    def postpone(self, lease: ObjectKey, now: float) -> None:
        """The Lease could not be read."""
        self._tracked.setdefault(lease, _TrackedLease()).next_read_at = now + self.settings.lease_poll

    def missing(self, lease: ObjectKey, now: float) -> None:
        """The API server has no such Lease."""
        watched = self._tracked.setdefault(lease, _TrackedLease())
        watched.state, watched.read_at, watched.renewal = LeaseState.MISSING, now, ()
        watched.next_read_at = now + self.settings.lease_poll

    def observe(self, lease: ObjectKey, body: dict[str, Any], now: float, wall: float) -> None:
        """A Lease was read."""
        watched = self._tracked.setdefault(lease, _TrackedLease())
        spec = body.get("spec") or {}
        duration = float(spec.get("leaseDurationSeconds") or LEASE_DURATION_SECONDS)
        poll = min(self.settings.lease_poll, max(duration / 3, 0.5))
        renewal = (body.get("metadata", {}).get("uid"), spec.get("renewTime"), spec.get("holderIdentity"))
        if renewal != watched.renewal:
            age = wall - (parse_time(spec.get("renewTime")) or 0.0)
            fresh = bool(watched.renewal) or age < duration  # a change seen here is fresh, whatever the driver's clock
            grace = duration if fresh else min(duration, self.settings.stale_lease_grace)
            watched.expires_at = now + grace
        elif watched.read_at is not None and now - watched.read_at > MAX_MISSED_POLLS * poll:
            watched.expires_at = max(watched.expires_at, now + min(duration, self.settings.stale_lease_grace))
        watched.renewal, watched.read_at, watched.next_read_at = renewal, now, now + poll
        watched.state = LeaseState.EXPIRED if now >= watched.expires_at else LeaseState.HELD
