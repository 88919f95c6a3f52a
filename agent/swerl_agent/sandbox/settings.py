"""Timing of a session; the defaults suit a busy cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionSettings:
    """Times are in seconds unless a field's comment differs."""

    keep_alive: float = 30.0  # between two resize frames, while idle and while a command runs
    reconnect_window: float = 300.0  # for reopening the stream to a Pod that cannot be reached
    refused_window: float = 15.0  # for repeating a refused request: a missing permission may be granted meanwhile
    first_pause: float = 0.2  # before a stream that did not open is requested again; doubled each time
    longest_pause: float = 5.0
    hello_timeout: float = 120.0  # for the loop's first reply; a saturated node starts processes slowly
    probe_timeout: float = 30.0  # for the reply of the runtime, where a shell sends nothing: its node may hang, too
    first_ping: float = 10.0  # until a running command's stream is pinged; most commands end earlier
    next_ping: float = 30.0  # until the next ping, when the reply to the last one must have arrived
    watchdog_after: float = 2.0  # until the Pod itself enforces the command's timeout; short commands need no watchdog
    watchdog_slack: float = 5.0  # the Pod waits this much longer than the client before it kills a command
    kill_send: float = 2.0  # to send the kill of a command whose caller was cancelled
    kill_grace: float = 15.0  # from the kill to the result; then the stream is reopened, once
    hello_after_kill: float = 30.0  # for the first reply on that new stream
    chunk_bytes: int = (1 << 20) - 1  # of an upload per message: 1 MiB with its channel byte
    chunk_timeout: float = 60.0  # to send one chunk and receive its confirmation


DEFAULT_SETTINGS = SessionSettings()
