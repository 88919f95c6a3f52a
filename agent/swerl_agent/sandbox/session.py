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
* A session outlives its client: another one with its `token` goes on with it, and a command that bears an `id` runs
  once for all of them, as long as the session's folder stands in the Pod.

Outputs are files: a command that opens /dev/stdout or /dev/stderr anew with `>` empties what it printed before.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from . import files, wire
from .errors import ExecRefused, HandshakeFailed, TransferFailed
from .link import Connector, Link, LinkLost, open_link
from .order import Order
from .result import CommandResult
from .upload import upload

KEEP_ALIVE = 30.0  # seconds between resize frames, idle or busy
RECONNECT_WINDOW = 300.0  # seconds a Pod that cannot be reached is tried again
REFUSED_WINDOW = 15.0  # seconds a request that is refused is made again: a right may be on its way
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between attempts, doubled each time
DEFAULT_OUTPUT = 256 << 10  # bytes of each output that travel
FILE_LIMIT = 1 << 30  # bytes; an endless output must not fill the node and have the Pod evicted
UPLOAD_ATTEMPTS = 3


class Session:
    """A shell in one Pod, opened at the first use; use `async with`, or `close` it."""

    def __init__(
        self,
        connector: Connector,
        *,
        token: str | None = None,
        file_limit: int = FILE_LIMIT,
        login: bool = True,
        image: str = "",
    ) -> None:
        """`token`: of the session to go on with, by default a new one; letters, digits, `-`, `_`.

        `file_limit`: bytes a command can write into one file, its outputs included; more ends the writer. `login`:
        whether commands begin in a login shell; without, in plain `sh`, they cost the sandbox half as much or less.
        `image`: that the Pod runs, as its node resolved it, for those who want to know.
        """
        self.image = image
        self._connector = connector
        self._file_limit, self._login = file_limit, login
        self.token = secrets.token_hex(8) if token is None else wire.checked(token, "a token of a session")
        self._client = secrets.token_hex(4)  # tells our commands from those of other clients of the session
        self._ids = itertools.count(1)
        self._turn = asyncio.Lock()
        self._link: Link | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._abandoned: str | None = None  # a command whose caller went away
        self._lost_streams = self._failed_handshakes = 0  # so far

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
        user: str | None = None,
        stdin: bytes | None = None,
        id: str | None = None,
        login: bool | None = None,
        max_output: int = DEFAULT_OUTPUT,
    ) -> CommandResult:
        """Run `command` as `bash -lc` would (`sh -lc` where there is no bash), in a shell that nothing ran in before.

        `login`: whether it runs so, or as `sh -c` would, without the login profile; by default as the session's. The
        other kind is a shell below one of the session's.

        `timeout` in seconds. `env` is set after the login profile has run. `user`: whom the command runs as, by name or
        number; the container must run as root. `stdin`: what it reads, in the form of a file; nothing by default.
        Of each output at most `max_output` bytes travel, half of them from its start, half from its end.

        `id` names the command for good: asked for again, by this client or by another with this session's `token`, the
        command does not run again, whatever text is given. If it is done its result comes again, if not it is waited
        for; it runs on when its caller goes away. The results of named commands stay in the Pod.

        Exit code 126 and a message in stderr when `cwd` or `user` cannot be had. Raises SandboxLost or HandshakeFailed
        when the infrastructure fails, FileError when there is no room for `stdin` or a long command; TypeError or
        ValueError, before anything is sent, for what cannot be said to a shell, a NUL byte for instance.
        """
        if not isinstance(stdin, bytes | None):
            raise TypeError(f"stdin is bytes, not {type(stdin).__name__}; encode a text first")
        name, cut = self._name(id), wire.Cut.of(max_output)
        login = self._login if login is None else login
        say = partial(wire.command_text, command, cwd=cwd, env=env, user=user, login=login, taker_login=self._login)
        text = say()
        data = command.encode("utf-8", "surrogateescape")
        if stdin or len(data) > wire.INLINE_LIMIT:
            script = await self.put(data, name) if len(data) > wire.INLINE_LIMIT else None
            given = await self.put(stdin, name, check=True) if stdin else None
            text = say(script=script, stdin=given)
        return await self._execute(name, text, timeout, cut)

    async def execute(self, text: str, *, timeout: float, cut: wire.Cut, id: str | None = None) -> CommandResult:
        """Run shell text that may use the loop's `$sw_dir`, with the guarantees of `run`."""
        return await self._execute(self._name(id), text, timeout, cut)

    async def _execute(self, name: str, text: str, timeout: float, cut: wire.Cut) -> CommandResult:
        async with self._turn:
            started = time.monotonic()
            lost, refused = self._lost_streams, self._failed_handshakes
            order = Order(name, cut, text, timeout)
            try:
                result = await self._fulfil(order)
            except BaseException:
                self._abandoned = name if order.sent and not wire.named(name) else None
                await self._drop()
                raise
        return CommandResult(
            id=name.removeprefix(wire.NAMED),
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            stdout_bytes=result.stdout_bytes,
            stderr_bytes=result.stderr_bytes,
            timed_out=result.late or (order.killed and result.exit_code in (137, 143)),
            duration=time.monotonic() - started,
            ran=result.ran,
            retries=self._lost_streams - lost,
            handshake_errors=self._failed_handshakes - refused,
        )

    def _name(self, id: str | None) -> str:
        """What the Pod calls a command: the caller's `id`, or one that no other client of the session gives."""
        if id is None:
            return f"c{next(self._ids)}-{self._client}"
        return wire.NAMED + wire.checked(id, "an id of a command")

    async def write_file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Put `data` at `path`, folders included, whole or not at all; raises FileError, TransferFailed."""
        await files.write(self, path, data, mode)

    async def read_file(self, path: str, limit: int = 64 << 20) -> bytes:
        """The content of `path`; raises FileError when it is missing, no file, or longer than `limit` bytes."""
        return await files.read(self, path, limit)

    async def put(self, data: bytes, owner: str = "up", *, check: bool = False) -> str:
        """Bring `data` into the session's folder and return the file's name there, a new one each time.

        It stays until the command `owner` is forgotten. Its bytes are counted in the Pod for a `check`.
        """
        async with self._turn:
            for _ in range(UPLOAD_ATTEMPTS):
                name = f"{owner}.{next(self._ids)}-{self._client}"
                try:
                    await upload(await self._connected(), name, data, check=check)
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

    async def _fulfil(self, order: Order) -> wire.Result:
        while True:
            try:
                return await order.fulfil(await self._connected(order.hello))
            except LinkLost:
                self._lost_streams += 1
                await self._drop()
                order.count_strike()

    async def _connected(self, hello: float | None = None) -> Link:
        """A stream; with `hello`, raises LinkLost where the Pod takes one and is silent for so many seconds."""
        if self._link is None:
            self._link = await self._reconnect(hello)
            if self._keeper is None:
                self._keeper = asyncio.create_task(self._keep_alive())
            if self._abandoned is not None:
                await self._link.send(wire.kill(self._abandoned))
                self._abandoned = None
        return self._link

    async def _reconnect(self, hello: float | None) -> Link:
        clock = asyncio.get_running_loop().time
        began, pause = clock(), FIRST_PAUSE
        while True:
            try:
                return await open_link(self._connector, self.token, self._file_limit, self._login, hello)
            except (LinkLost, HandshakeFailed) as error:
                if hello is not None and isinstance(error, LinkLost):
                    raise
                self._failed_handshakes += 1
                refused = isinstance(error, ExecRefused)
                window = REFUSED_WINDOW if refused else RECONNECT_WINDOW
                if clock() >= began + window:
                    kind = ExecRefused if refused else HandshakeFailed
                    raise kind(f"no stream to the sandbox for {window:.0f} s: {error}") from error
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
