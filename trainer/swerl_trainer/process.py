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
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from swerl_agent.event_loop import run
from swerl_api.names import ERROR_PREFIX

INTERRUPTED = 143  # exit code after SIGTERM
LONGEST_ERROR = 1000  # characters of the last line; Ray's own messages go on for pages
SHUTDOWN_SECONDS = 30.0  # for Ray to let a process go whose work has ended
NO_RETRY = 78  # sysexits EX_CONFIG: tells the operator that another try would fail the same way


def run_to_end(work: Coroutine[Any, Any, None], *, hopeless: tuple[type[BaseException], ...] = ()) -> int:
    """Run `work`; the process's exit code, NO_RETRY when one of `hopeless` ended it."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run(work)
    except BaseException as error:
        return _told(error, hopeless)
    return 0


def _told(error: BaseException, hopeless: tuple[type[BaseException], ...] = ()) -> int:
    """Say in the last line what ended the work; the exit code."""
    if isinstance(error, asyncio.CancelledError):
        print(f"{ERROR_PREFIX} interrupted by SIGTERM", flush=True)
        return INTERRUPTED
    logging.getLogger("swerl_trainer").error("the work failed", exc_info=error)
    first = root(error)
    text = " ".join(str(first).split()) or "no message"
    print(f"{ERROR_PREFIX} {type(first).__name__}: {text[:LONGEST_ERROR]}", flush=True)
    return NO_RETRY if isinstance(first, hopeless) else 1


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
        with _at_most(SHUTDOWN_SECONDS, sys.exception()):
            ray.shutdown()


@contextmanager
def _at_most(seconds: float, error: BaseException | None) -> Iterator[None]:
    """What is inside gets `seconds`; then the process ends, saying `error` if there is one, as it would have after it.

    Its exit code does not tell wrong input from other failures, so that the operator tries once more. Ray waits for
    threads of its own where no signal reaches it.
    """

    def leave() -> None:
        logging.getLogger("swerl_trainer").warning("Ray did not let go in %g s; leaving without its farewell", seconds)
        os._exit(0 if error is None else _told(error))

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
