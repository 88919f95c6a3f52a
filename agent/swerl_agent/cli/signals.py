"""The event with which a command that serves is asked to end."""

from __future__ import annotations

import asyncio
import signal


def stop_event() -> asyncio.Event:
    """Set by SIGTERM and by SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
