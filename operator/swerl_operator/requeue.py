"""When jobs and evaluations are reconciled again."""

from __future__ import annotations

from datetime import datetime

from .times import age

CONFLICT_SECONDS = 0.2  # after a status write that lost against a newer version
STARTING_SECONDS = 1.5
RUNNING_SECONDS = 5.0
BLOCKED_SECONDS = 15.0  # until a missing prerequisite is checked again


def seconds_left(limit: float | None, since: str | None, now: datetime) -> float | None:
    """Seconds until `limit` seconds have passed since the RFC 3339 time `since`; None without a limit or a time."""
    return None if limit is None or since is None else limit - age(since, now)
