"""A local terminal attached to a shell in a sandbox.

Guarantees: the local terminal is restored when `attach` returns or raises. The remote size follows the local
one. A lost connection is an error. If standard input is a pipe, the shell ends when the pipe does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator

from swerl_api.names import SANDBOX_CONTAINER
from swerl_kube import ExecChannel, KubeClient, Unreachable

from .errors import HandshakeFailed

SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l")
KEEP_ALIVE = 30.0  # seconds between frames that keep proxies from closing an idle stream
CHUNK = 1 << 16
END_OF_INPUT = b"\x04"  # Ctrl-D
END_OF_INPUT_PAUSE = 1.0  # seconds until the end of input is sent again


async def attach(client: KubeClient, namespace: str, pod: str, container: str = SANDBOX_CONTAINER) -> int:
    """Run a login shell in the Pod on this terminal; its exit code.

    Raises NotFound, HandshakeError; HandshakeFailed when the connection is lost before the shell ends.
    """
    channel = await client.exec_stream(namespace, pod, SHELL, container=container, tty=True)
    try:
        with _raw(sys.stdin.fileno()):
            return await _relay(channel, sys.stdin.fileno(), sys.stdout.fileno())
    finally:
        await channel.close()


async def _relay(channel: ExecChannel, source: int, target: int) -> int:
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()
    resized = asyncio.Event()
    resized.set()
    loop.add_reader(source, _read, loop, source, typed)
    loop.add_signal_handler(signal.SIGWINCH, resized.set)
    senders = [asyncio.create_task(_send(channel, typed)), asyncio.create_task(_follow_size(channel, resized, target))]
    try:
        while (data := await channel.receive()) is not None:
            await asyncio.to_thread(write_all, target, data.payload)
    finally:
        loop.remove_reader(source)
        loop.remove_signal_handler(signal.SIGWINCH)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
    if channel.status is None:
        raise HandshakeFailed("the connection to the sandbox was lost")
    return channel.status.code if channel.status.code is not None else 1


def _read(loop: asyncio.AbstractEventLoop, source: int, typed: asyncio.Queue[bytes]) -> None:
    data = os.read(source, CHUNK)
    if not data:  # a closed pipe stays readable
        loop.remove_reader(source)
    typed.put_nowait(data)


async def _send(channel: ExecChannel, typed: asyncio.Queue[bytes]) -> None:
    with contextlib.suppress(Unreachable):
        while data := await typed.get():
            await channel.send(data)
        while True:  # only a process that is reading sees the end of input of a terminal
            await channel.send(END_OF_INPUT)
            await asyncio.sleep(END_OF_INPUT_PAUSE)


async def _follow_size(channel: ExecChannel, resized: asyncio.Event, target: int) -> None:
    with contextlib.suppress(Unreachable):
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEP_ALIVE):
                    await resized.wait()
            resized.clear()
            await channel.resize(*_size(target))


def _size(terminal: int) -> tuple[int, int]:
    """Columns and rows; 80 x 24 if the output is not a terminal."""
    try:
        return os.get_terminal_size(terminal)
    except OSError:
        return 80, 24


def write_all(target: int, data: bytes) -> None:
    """Write `data` to the descriptor `target`."""
    while data:
        data = data[os.write(target, data) :]


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Send every key to the sandbox, including Ctrl-C. A pipe is left unchanged."""
    if not os.isatty(terminal):
        yield
        return
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)  # keeps input typed ahead
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
