"""One sandbox Pod, one long-lived stream, commands that run exactly once.

Guarantees:
* A command has run once when `run` returns, however often the stream, the API server or the loop died meanwhile: its id
  is claimed in the Pod before it starts, its result is kept there until the next command, and a new stream asks for the
  id instead of sending the command again. Where that record itself is lost the answer is `StateLost`, not a second run.
* `run` always returns: after `timeout` the command's process group and session are killed, by the client or, if it is
  cut off, by the Pod itself; what was printed until then comes back with `timed_out`.
* Outputs travel by byte count: what arrives is complete, or its two ends with the true counts.
* A background process that holds the outputs open does not hold the command.
* Commands of one session run one after the other; sessions share the event loop and no thread.

Outputs are files: a command that opens /dev/stdout or /dev/stderr anew with `>` empties what it printed before.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from . import files, wire
from .errors import FileError, HandshakeFailed, StateLost, TransferFailed, Unresponsive
from .link import Connector, Link, LinkLost, open_link
from .result import CommandResult

KEEP_ALIVE = 30.0  # seconds between resize frames, idle or busy, and between pings of a busy session
SILENCE_LIMIT = 75.0  # seconds a busy stream may be silent although it was pinged
GUARD_AFTER = 2.0  # seconds a command runs before the Pod itself watches its time: few need that process
GUARD_SLACK = 5.0  # seconds the Pod's watch leaves to the client's own kill
KILL_GRACE = 15.0  # seconds from the kill to the result; then the stream is opened anew, once
RECONNECT_WINDOW = 300.0  # seconds a Pod that cannot be reached is tried again
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between attempts, doubled each time
DEFAULT_OUTPUT = 256 << 10  # bytes of each output that travel
FILE_LIMIT = 1 << 30  # bytes; an endless output must not fill the node and have the Pod evicted
CHUNK = (1 << 20) - 1  # bytes of an upload per message: 1 MiB with its channel byte
UPLOAD_TIMEOUT = 60.0  # seconds for one chunk
UPLOAD_ATTEMPTS = 3


@dataclass
class _Order:
    """A command on its way."""

    id: str
    cut: wire.Cut
    text: str
    deadline: float  # loop time at which it is killed
    sent: bool = False  # some stream may have delivered it
    killed: bool = False
    grace_ends: float = 0.0  # loop time until which the result of a killed command is awaited on this stream
    strikes: int = 0  # streams that brought no result after the kill


class Session:
    """A shell in one Pod, opened at the first use; use `async with`, or `close` it."""

    def __init__(self, connector: Connector, *, file_limit: int = FILE_LIMIT) -> None:
        """`file_limit`: bytes a command can write into one file, its outputs included; more ends the writer."""
        self._connector = connector
        self._file_limit = file_limit
        self.token = secrets.token_hex(8)  # names the session's folder in the Pod
        self._ids = itertools.count(1)
        self._turn = asyncio.Lock()
        self._link: Link | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._abandoned: str | None = None  # a command whose caller went away

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Start the loop now instead of at the first command; raises SandboxLost or HandshakeFailed."""
        async with self._turn:
            await self._connected()
        return self

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        login: bool = True,
        max_output: int = DEFAULT_OUTPUT,
    ) -> CommandResult:
        """Run `command` as `bash -lc` would (`sh -lc` where there is no bash), in a shell that nothing ran in before.

        `timeout` in seconds. `env` is set after the login profile has run. Without `login` the command runs in a plain
        shell below the login shell. Of each output at most `max_output` bytes travel, half of them from its start, half
        from its end.
        Raises SandboxLost or HandshakeFailed when the infrastructure fails, ValueError for a NUL byte.
        """
        data = command.encode("utf-8", "surrogateescape")
        script = await self.put(data) if len(data) > wire.INLINE_LIMIT else None
        text = wire.command_text(command, cwd=cwd, env=env, login=login, script=script)
        return await self.execute(text, timeout=timeout, cut=wire.Cut(max_output - max_output // 2, max_output // 2))

    async def execute(self, text: str, *, timeout: float, cut: wire.Cut) -> CommandResult:
        """Run shell text that may use the loop's `$sw_dir`, with the guarantees of `run`."""
        async with self._turn:
            started = time.monotonic()
            order = _Order(f"c{next(self._ids)}", cut, text, asyncio.get_running_loop().time() + timeout)
            try:
                result = await self._fulfil(order)
            except BaseException:
                self._abandoned = order.id if order.sent else None
                await self._drop()
                raise
        return CommandResult(
            id=result.id,
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            stdout_bytes=result.stdout_bytes,
            stderr_bytes=result.stderr_bytes,
            timed_out=result.late or (order.killed and result.exit_code in (137, 143)),
            duration=time.monotonic() - started,
        )

    async def write_file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Put `data` at `path`, folders included, whole or not at all; raises FileError, TransferFailed."""
        await files.write(self, path, data, mode)

    async def read_file(self, path: str, limit: int = 64 << 20) -> bytes:
        """The content of `path`; raises FileError when it is missing, no file, or longer than `limit` bytes."""
        return await files.read(self, path, limit)

    async def put(self, data: bytes) -> str:
        """Bring `data` into the session's folder and return the file's name there, a new one each time."""
        async with self._turn:
            for _ in range(UPLOAD_ATTEMPTS):
                name = f"up{next(self._ids)}"
                try:
                    await self._upload(await self._connected(), name, data)
                    return name
                except LinkLost:
                    await self._drop()
                except BaseException:
                    await self._drop()
                    raise
        raise TransferFailed(f"{len(data)} bytes could not be uploaded in {UPLOAD_ATTEMPTS} attempts")

    async def close(self) -> None:
        """End the stream; the Pod is not touched."""
        if self._keeper is not None:
            self._keeper.cancel()
        await self._drop()

    async def _fulfil(self, order: _Order) -> wire.Result:
        while True:
            try:
                link = await self._connected()
                if order.sent:
                    await self._ask_again(link, order)
                else:
                    order.sent = True
                    await link.send(wire.run(order.id, order.cut, order.text))
                return await self._await_result(link, order)
            except LinkLost:
                await self._drop()
                self._count_strike(order)

    async def _ask_again(self, link: Link, order: _Order) -> None:
        if not link.resumed:
            raise StateLost(f"the record of command {order.id} vanished while its stream was lost: it may have run")
        order.killed = False
        await link.send(wire.ask(order.id, order.cut))

    def _count_strike(self, order: _Order) -> None:
        if order.killed:
            order.strikes += 1
        if order.strikes > 1:
            raise Unresponsive(f"no result of command {order.id}, not even {KILL_GRACE:.0f} s after it was killed")

    async def _await_result(self, link: Link, order: _Order) -> wire.Result:
        clock = asyncio.get_running_loop().time
        guard_at, ping_at = clock() + GUARD_AFTER, clock() + KEEP_ALIVE
        while True:
            until = min(guard_at, ping_at, order.grace_ends if order.killed else order.deadline)
            answer = await link.next(order.cut, until)
            if isinstance(answer, wire.Result):
                if answer.id == order.id:
                    return answer
                raise LinkLost(f"got the result of {answer.id}, not of {order.id}")
            if isinstance(answer, wire.Say):
                await self._heed(link, order, answer)
            now = clock()
            if now >= guard_at:
                guard_at = float("inf")
                await link.send(wire.guard(order.id, order.deadline - now + GUARD_SLACK))
            if now >= ping_at:
                ping_at = now + KEEP_ALIVE
                await self._ping(link, now)
            await self._mind_time(link, order, now)

    async def _mind_time(self, link: Link, order: _Order, now: float) -> None:
        if not order.killed and now >= order.deadline:
            order.killed, order.grace_ends = True, now + KILL_GRACE
            await link.send(wire.kill(order.id))
        elif order.killed and now >= order.grace_ends:
            raise LinkLost(f"no result of {order.id} after it was killed")

    async def _heed(self, link: Link, order: _Order, said: wire.Say) -> None:
        if said.argument != order.id:
            return
        if said.word == "unknown":
            await link.send(wire.run(order.id, order.cut, order.text))
        elif said.word == "claimed":
            await link.send(wire.ask(order.id, order.cut))
        elif said.word == "refused":
            raise StateLost(f"command {order.id} was not started: the Pod has no writable folder to note it in")

    async def _ping(self, link: Link, now: float) -> None:
        if now - link.heard > SILENCE_LIMIT:
            raise LinkLost(f"silent for {now - link.heard:.0f} s")
        await link.send(wire.PING)

    async def _upload(self, link: Link, name: str, data: bytes) -> None:
        for start in range(0, max(1, len(data)), CHUNK):
            chunk = data[start : start + CHUNK]
            await link.send(wire.put(name, len(chunk)))
            if chunk:
                await link.send(chunk)
            said = await link.next(wire.Cut(0, 0), asyncio.get_running_loop().time() + UPLOAD_TIMEOUT)
            if said == wire.Say("full", name):
                raise FileError(f"no room for {len(data)} bytes in the sandbox")
            if said != wire.Say("put", name):
                raise LinkLost(f"upload of {name} not confirmed: {said}")

    async def _connected(self) -> Link:
        if self._link is None:
            self._link = await self._reconnect()
            if self._keeper is None:
                self._keeper = asyncio.create_task(self._keep_alive())
            if self._abandoned is not None:
                await self._link.send(wire.kill(self._abandoned))
                self._abandoned = None
        return self._link

    async def _reconnect(self) -> Link:
        clock = asyncio.get_running_loop().time
        give_up, pause = clock() + RECONNECT_WINDOW, FIRST_PAUSE
        while True:
            try:
                return await open_link(self._connector, self.token, self._file_limit)
            except (LinkLost, HandshakeFailed) as error:
                if clock() >= give_up:
                    raise HandshakeFailed(f"no stream to the sandbox for {RECONNECT_WINDOW:.0f} s: {error}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE)
            if self._link is not None:
                with suppress(LinkLost):
                    await self._link.keep_alive()

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()
