"""Whether a driver lives, told from its Lease.

Guarantees: a Lease counts as expired only when it was read unchanged for its whole duration by *this* clock, so
that the driver's clock does not matter; time in which the API server could not be read is not counted against the
driver, which could not renew either. A Lease that looks long expired when first read is given a short patience
instead of its whole duration. Pure: time is an argument (any steady clock; `wall` is epoch seconds).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from swerl_api.names import LEASE_DURATION_SECONDS

from .parsed import Key, seconds
from .settings import SandboxSettings

GAP = 3  # polls without an answer after which time no longer counts


class LeaseState(Enum):
    """What is known of a Lease."""

    UNKNOWN = "unknown"
    HELD = "held"
    EXPIRED = "expired"
    MISSING = "missing"


@dataclass
class _Watched:
    state: LeaseState = LeaseState.UNKNOWN
    renewed: tuple[Any, ...] = ()
    deadline: float = 0.0
    read: float | None = None
    next_read: float = 0.0


@dataclass
class Leases:
    """The Leases that groups name."""

    settings: SandboxSettings
    _watched: dict[Key, _Watched] = field(default_factory=dict)

    def state(self, lease: Key) -> LeaseState:
        """What was last seen."""
        found = self._watched.get(lease)
        return found.state if found else LeaseState.UNKNOWN

    def keep(self, leases: set[Key]) -> None:
        """Forget all others."""
        self._watched = {lease: self._watched.get(lease) or _Watched() for lease in leases}

    def to_read(self, now: float) -> list[Key]:
        """Leases to read now."""
        return [lease for lease, watched in self._watched.items() if watched.next_read <= now]

    def postpone(self, lease: Key, now: float) -> None:
        """It could not be read."""
        self._watched.setdefault(lease, _Watched()).next_read = now + self.settings.lease_poll

    def missing(self, lease: Key, now: float) -> None:
        """The API server says that there is no such Lease."""
        watched = self._watched.setdefault(lease, _Watched())
        watched.state, watched.read, watched.renewed = LeaseState.MISSING, now, ()
        watched.next_read = now + self.settings.lease_poll

    def observe(self, lease: Key, body: dict[str, Any], now: float, wall: float) -> None:
        """A Lease was read."""
        watched = self._watched.setdefault(lease, _Watched())
        spec = body.get("spec") or {}
        duration = float(spec.get("leaseDurationSeconds") or LEASE_DURATION_SECONDS)
        poll = min(self.settings.lease_poll, max(duration / 3, 0.5))
        renewed = (body.get("metadata", {}).get("uid"), spec.get("renewTime"), spec.get("holderIdentity"))
        if renewed != watched.renewed:
            age = wall - (seconds(spec.get("renewTime")) or 0.0)
            fresh = bool(watched.renewed) or age < duration  # what changes under our eyes is, whatever its clock says
            patience = duration if fresh else min(duration, self.settings.lease_stale_patience)
            watched.deadline = now + patience
        elif watched.read is not None and now - watched.read > GAP * poll:
            watched.deadline = max(watched.deadline, now + min(duration, self.settings.lease_stale_patience))
        watched.renewed, watched.read, watched.next_read = renewed, now, now + poll
        watched.state = LeaseState.EXPIRED if now >= watched.deadline else LeaseState.HELD
