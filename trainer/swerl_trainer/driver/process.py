"""What every process that the operator starts on Ray has in common: its log, its end, its signal.

Guarantee: whatever ends it early is one last line `SWERL-ERROR: <what failed>` on standard output, for the operator's
status.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from swerl_agent.event_loop import run
from swerl_api.names import ERROR_PREFIX

INTERRUPTED = 143  # exit code after SIGTERM
LONGEST_ERROR = 1000  # characters of the last line; Ray's own messages go on for pages
NO_RETRY = 78  # sysexits EX_CONFIG: tells the operator that another try would fail the same way


def run_to_end(work: Coroutine[Any, Any, None], *, hopeless: tuple[type[BaseException], ...] = ()) -> int:
    """Run `work`; the process's exit code, NO_RETRY when one of `hopeless` ended it."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run(work)
    except asyncio.CancelledError:
        print(f"{ERROR_PREFIX} interrupted by SIGTERM", flush=True)
        return INTERRUPTED
    except BaseException as error:
        logging.getLogger("swerl_trainer").exception("the work failed")
        first = root(error)
        text = " ".join(str(first).split()) or "no message"
        print(f"{ERROR_PREFIX} {type(first).__name__}: {text[:LONGEST_ERROR]}", flush=True)
        return NO_RETRY if isinstance(first, hopeless) else 1
    return 0


def root(error: BaseException) -> BaseException:
    """What went wrong: of several errors at once the first, of an actor's error what was raised there."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif isinstance(cause := getattr(error, "cause", None), BaseException):  # RayTaskError begins with a process
            error = cause
        else:
            return error


@asynccontextmanager
async def on_ray() -> AsyncIterator[None]:
    """Connected to Ray; SIGTERM cancels the task that is inside."""
    import ray

    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=True, logging_level=logging.WARNING)
    task = asyncio.current_task()
    if task is not None:  # after ray.init, which puts a handler of its own
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        ray.shutdown()
