"""The frame of every process that the operator starts on Ray: log, exit code, signals.

Guarantee: an error that ends the process early is its last line on standard output, `SWERL-ERROR: <what failed>`, for
the operator's status.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from swerl_agent.event_loop import run
from swerl_agent.signals import cancel_on_sigterm
from swerl_api.names import ERROR_PREFIX
from swerl_kube.logs import LogSettings

INTERRUPTED = 143  # exit code after SIGTERM
MAX_ERROR_LENGTH = 1000  # characters of the last line; Ray's messages can be pages long
SHUTDOWN_SECONDS = 30.0  # for Ray to disconnect a process whose work has ended
NO_RETRY = 78  # sysexits EX_CONFIG: another attempt would fail the same way


def run_to_end(work: Coroutine[Any, Any, None], *, permanent_errors: tuple[type[BaseException], ...] = ()) -> int:
    """Run `work`; returns the process's exit code, NO_RETRY when one of `permanent_errors` ended it."""
    LogSettings().configure(sys.stdout)
    try:
        run(work)
    except BaseException as error:
        return _report(error, permanent_errors)
    return 0


def _report(error: BaseException, permanent_errors: tuple[type[BaseException], ...] = ()) -> int:
    """Print the last line about what ended the work; returns the exit code."""
    if isinstance(error, asyncio.CancelledError):
        print(f"{ERROR_PREFIX} interrupted by SIGTERM", flush=True)
        return INTERRUPTED
    logging.getLogger("swerl_trainer").error("the process failed", exc_info=error)
    first = root_cause(error)
    text = " ".join(str(first).split()) or "no message"
    print(f"{ERROR_PREFIX} {type(first).__name__}: {text[:MAX_ERROR_LENGTH]}", flush=True)
    return NO_RETRY if isinstance(first, permanent_errors) else 1


def root_cause(error: BaseException) -> BaseException:
    """The cause of an error: the first of an exception group, the exception in the actor for a Ray error."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif isinstance(cause := getattr(error, "cause", None), BaseException):  # RayTaskError begins with a process
            error = cause
        else:
            return error


@asynccontextmanager
async def on_ray() -> AsyncIterator[None]:
    """Connected to Ray; the first SIGTERM cancels the task that is inside."""
    import ray

    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=True, logging_level=logging.WARNING)
    task = asyncio.current_task()
    if task is not None:  # after ray.init, which installs its own handler
        cancel_on_sigterm(task)
    try:
        yield
    finally:
        with _time_limit(SHUTDOWN_SECONDS, sys.exception()):
            ray.shutdown()


@contextmanager
def _time_limit(seconds: float, error: BaseException | None) -> Iterator[None]:
    """Exit the process, reporting `error` if there is one, when the block takes longer than `seconds`.

    The exit code then does not distinguish invalid input, so the operator retries once. Ray may wait for threads of its
    own where no signal interrupts it.
    """

    def exit_now() -> None:
        logging.getLogger("swerl_trainer").warning("Ray did not shut down in %g s; exiting without it", seconds)
        os._exit(0 if error is None else _report(error))

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
