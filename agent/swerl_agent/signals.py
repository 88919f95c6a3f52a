"""How a program is asked to end: an event for one that serves, a cancellation for the others."""

from __future__ import annotations

import asyncio
import signal


def stop_event() -> asyncio.Event:
    """Set by SIGTERM and by SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def cancel_on_sigterm(task: asyncio.Task[object]) -> None:
    """Cancel `task` at the first SIGTERM; later ones, such as the second of GNU timeout, leave its clean-up alone."""
    first = iter((task,))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: [each.cancel() for each in first])
