"""Kubernetes times as epoch seconds, and how long ago one was."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(stamp: str | None) -> float | None:
    """Epoch seconds of an RFC 3339 time (with or without fraction), or None."""
    if not stamp:
        return None
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def format_time(epoch: float) -> str:
    """RFC 3339 time of `epoch` seconds, as the API has it."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(stamp: str | None, now: datetime) -> float:
    """Seconds from an RFC 3339 time to `now`; 0 without a time."""
    since = parse_time(stamp)
    return 0.0 if since is None else now.timestamp() - since
