"""Log lines that become Events of the job, for `kubectl describe swerljob`.

A component logs a repair with `extra=event("EngineReplaced")`; the driver posts such lines (`driver/event_poster.py`),
and other processes only log them.
"""

from __future__ import annotations

import logging

from swerl_kube.logs import EVENT_REASON

SLOW_VOLUME = "VolumeSlow"  # reason of an Event
SLOW_VOLUME_SECONDS = 10.0  # for which training waits for the volume before this is an Event


def event(reason: str) -> dict[str, str]:
    """`extra` of a log call whose line is an Event with this reason, a word in CamelCase."""
    return {EVENT_REASON: reason}


def event_reason(record: logging.LogRecord) -> str | None:
    """The reason of a line that is an Event, None for others."""
    reason = getattr(record, EVENT_REASON, None)
    return str(reason) if reason else None
