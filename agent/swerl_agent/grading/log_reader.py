"""Test output is read in processes of its own, since its size and content are the patch's choice.

Guarantees: the event loop never waits for a parser; a call that takes too long or too much memory ends its process and
raises `Unreadable`, and the next call has a fresh one; processes end with their owner.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, TypeVar

from swerl_agent.tasks.swebench_library import library

T = TypeVar("T")

PROCESSES = 2  # that read logs of one Grader: a log that takes all its time leaves the other one to the rest
SECONDS = 60.0  # for one log
START_SECONDS = 120.0  # for a process to load swebench
READY = b"ready"
MEMORY = 4 << 30  # address space of a process
_LENGTH = 8  # bytes that say how long a message is


class Unreadable(Exception):
    """A log could not be read within its limits; the message says which."""


class LogReader:
    """Calls functions of modules with what can be pickled, in at most `PROCESSES` processes."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._idle: list[asyncio.subprocess.Process] = []
        self._slots = asyncio.Semaphore(PROCESSES)

    async def prepare(self) -> None:
        """Start a process ahead, so that the first log need not wait for it."""
        async with self._slots:
            self._idle.append(await _started())

    async def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """What `function` returns or raises; raises Unreadable."""
        async with self._slots:
            process = self._idle.pop() if self._idle else await _started()
            try:
                async with asyncio.timeout(self._seconds):
                    kind, value = await _answered(process, (function, arguments, options))
            except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
                await _killed(process)
                limit = f"{self._seconds:.0f} s" if isinstance(error, TimeoutError) else f"{MEMORY >> 30} GiB"
                raise Unreadable(f"the log could not be read within {limit}") from error
            except BaseException:
                await asyncio.shield(_killed(process))
                raise
            self._idle.append(process)
        if isinstance(value, MemoryError):
            raise Unreadable(f"the log could not be read within {MEMORY >> 30} GiB")
        if kind == "raised":
            raise value
        result: T = value
        return result

    async def close(self) -> None:
        """End the processes."""
        for process in self._idle:
            await _killed(process)
        self._idle.clear()


async def _started() -> asyncio.subprocess.Process:
    paths = os.pathsep.join(path for path in sys.path if path)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from {__name__} import serve; serve()",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert process.stdout
    try:
        async with asyncio.timeout(START_SECONDS):
            await process.stdout.readexactly(len(READY))
    except BaseException as error:
        await asyncio.shield(_killed(process))
        if isinstance(error, TimeoutError | asyncio.IncompleteReadError):
            raise Unreadable(f"no process to read logs started within {START_SECONDS:.0f} s") from error
        raise
    return process


async def _answered(process: asyncio.subprocess.Process, request: Any) -> tuple[str, Any]:
    assert process.stdin and process.stdout
    content = pickle.dumps(request)
    process.stdin.write(len(content).to_bytes(_LENGTH) + content)
    with suppress(ConnectionError):  # a process that ended says why no answer comes
        await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(_LENGTH))
    answer: tuple[str, Any] = pickle.loads(await process.stdout.readexactly(length))
    return answer


async def _killed(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until their end."""
    while length := requests.read(_LENGTH):
        function, arguments, options = pickle.loads(requests.read(int.from_bytes(length)))
        try:
            answer = ("returned", function(*arguments, **options))
        except Exception as error:
            answer = ("raised", error)
        content = pickle.dumps(answer)
        answers.write(len(content).to_bytes(_LENGTH) + content)
        answers.flush()


def serve() -> None:
    """Be a process that reads logs."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints is no answer
    library()
    os.write(channel.fileno(), READY)
    _serve(sys.stdin.buffer, channel)
