"""A session: one sandbox Pod, one long-lived stream, commands that run exactly once.

Guarantees:
* A command has run once when `run` returns, however often the stream, the API server or the loop failed. The Pod
  reserves the command's id before the command starts and keeps its result until the next command. A new stream queries
  the id instead of sending the command again. If that record is lost, the command raises `StateLost`; it does not run
  twice.
* `run` always returns. After `timeout` the process group and session of the command are killed, by the client or, when
  the client is disconnected, by the Pod itself. The result has the output so far and `timed_out`.
* Outputs travel with their byte counts: an output is complete, or its first and last bytes with the true count.
* A background process that holds the outputs open does not delay the command's result.
* Commands of one session run one after the other; sessions share the event loop and use no threads.
* A session outlives its client. Another client with its `token` continues it. A command with an `id` runs once for all
  of them, as long as the session's folder exists in the Pod.

Outputs are files: a command that reopens /dev/stdout or /dev/stderr with `>` truncates its earlier output.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from . import files, wire
from .errors import ClaimEnded, ExecRefused, HandshakeFailed, SandboxError, TransferFailed, Unresponsive
from .pending_command import PendingCommand
from .result import CommandResult
from .settings import DEFAULT_SETTINGS, SessionSettings
from .stream import Connector, LoopFailed, LoopSilent, SessionStream, StreamLost, open_stream, runtime_answers
from .upload import upload

DEFAULT_OUTPUT = 256 << 10  # bytes of each output that are returned
FILE_LIMIT = 1 << 30  # bytes; an endless output must not fill the node's disk and get the Pod evicted
UPLOAD_RETRIES = 2


class Session:
    """A shell in one Pod, opened at the first use; use `async with` or call `close`."""

    def __init__(
        self,
        connector: Connector,
        *,
        token: str | None = None,
        file_limit: int = FILE_LIMIT,
        login: bool = True,
        image: str = "",
        settings: SessionSettings = DEFAULT_SETTINGS,
    ) -> None:
        """`token`: letters, digits, `-`, `_`; of the session to continue, by default of a new one.

        `file_limit`: bytes that a command can write into one file, its outputs included; a larger write kills the
        writer. `login`: whether commands start in a login shell; in plain `sh` they cost the sandbox at most half as
        much. `image`: the image of the Pod as its node resolved it, for callers that record it.
        """
        self.image = image
        self.token = secrets.token_hex(8) if token is None else wire.valid_label(token, "a token of a session")
        self._connector = connector
        self._file_limit, self._login, self._settings = file_limit, login, settings
        self._client = secrets.token_hex(4)  # distinguishes our commands from those of other clients of the session
        self._ids = itertools.count(1)
        self._lock = asyncio.Lock()
        self._stream: SessionStream | None = None
        self._closed = False
        self._worked = False  # some stream has had a loop, so that the image has what a loop needs
        self._keep_alive_task: asyncio.Task[None] | None = None
        self._cancelled_command: str | None = None  # to be killed over the next stream
        self._lost_streams = self._failed_handshakes = 0  # so far

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Open the stream now instead of at the first command; raises SandboxLost or HandshakeFailed."""
        async with self._lock:
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
        """Run `command` as `bash -lc` does (`sh -lc` without bash), in a fresh shell.

        * `timeout` in seconds.
        * `login`: False runs the command as `sh -c` does, without the login profile. Default: as the session's. A kind
          other than the session's takes one more shell.
        * `env` is set after the login profile has run.
        * `user`: name or number of the user that runs the command; the container must run as root.
        * `stdin`: the command reads it as a file; default: empty.
        * `max_output`: bytes returned of each output, half from its start and half from its end.
        * `id` makes the command idempotent: a second call with it, by this client or by another with this session's
          `token`, does not run the command again, whatever its text. It waits for the command and returns its result.
          The command keeps running when its caller goes away. Results of such commands stay in the Pod.

        Exit code 126 and a message in stderr when `cwd` or `user` is not available. Raises SandboxLost or
        HandshakeFailed when the infrastructure fails, and FileError when there is no room for `stdin` or a long
        command. Raises TypeError or ValueError, before anything is sent, for what a shell cannot take, such as NUL.
        """
        if not isinstance(stdin, bytes | None):
            raise TypeError(f"stdin is bytes, not {type(stdin).__name__}; encode a text first")
        name, limit = self._name(id), wire.OutputLimit.halves(max_output)
        login = self._login if login is None else login
        render = partial(wire.command_text, command, cwd=cwd, env=env, user=user, login=login, shell_login=self._login)
        text = render()
        data = command.encode("utf-8", "surrogateescape")
        if stdin or len(data) > wire.INLINE_LIMIT:
            script = await self.put(data, name) if len(data) > wire.INLINE_LIMIT else None
            stdin_file = await self.put(stdin, name, check=True) if stdin else None
            text = render(script=script, stdin=stdin_file)
        return await self._execute(name, text, timeout, limit)

    def without_profile(self) -> Session:
        """A new session of the same Pod, whose commands start in plain `sh` without the login profile."""
        limit, settings = self._file_limit, self._settings
        session = Session(self._connector, file_limit=limit, login=False, image=self.image, settings=settings)
        session._worked = self._worked
        return session

    async def execute(
        self, text: str, *, timeout: float, limit: wire.OutputLimit, id: str | None = None
    ) -> CommandResult:
        """Run shell text, which may use the loop's `$sw_dir`, with the guarantees of `run`."""
        return await self._execute(self._name(id), text, timeout, limit)

    async def _execute(self, name: str, text: str, timeout: float, limit: wire.OutputLimit) -> CommandResult:
        async with self._lock:
            started = time.monotonic()
            lost, refused = self._lost_streams, self._failed_handshakes
            command = PendingCommand(name, limit, text, timeout, self._settings)
            try:
                result = await self._result(command)
            except BaseException:
                if command.sent and not wire.has_caller_id(name):
                    await self._kill(name)
                await self._disconnect()
                raise
        return CommandResult(
            id=name.removeprefix(wire.CALLER_ID_PREFIX),
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            stdout_bytes=result.stdout_bytes,
            stderr_bytes=result.stderr_bytes,
            timed_out=result.timed_out or (command.killed and result.exit_code in (137, 143)),
            duration=time.monotonic() - started,
            run_seconds=result.run_seconds,
            retries=self._lost_streams - lost,
            handshake_errors=self._failed_handshakes - refused,
        )

    async def _kill(self, name: str) -> None:
        """Kill the command over the present stream; the next one repeats it, as this one may not deliver it."""
        self._cancelled_command = name
        if self._stream is not None:
            with suppress(StreamLost, TimeoutError):
                async with asyncio.timeout(self._settings.kill_send):
                    await self._stream.send(wire.kill(name))

    def _name(self, id: str | None) -> str:
        """The Pod's name of a command: from the caller's `id`, or unique among the clients of the session."""
        if id is None:
            return f"c{next(self._ids)}-{self._client}"
        return wire.CALLER_ID_PREFIX + wire.valid_label(id, "an id of a command")

    async def write_file(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write `data` to `path` atomically and create missing folders; raises FileError, TransferFailed.

        A file that exists keeps its owner and, without `mode`, its mode; a symbolic link stays one.
        """
        await files.write(self, path, data, mode, self._file_limit)

    async def read_file(self, path: str, limit: int | None = None) -> bytes:
        """The content of `path`, at most `limit` bytes (default: the limit of `write_file`); raises FileError."""
        return await files.read(self, path, self._file_limit if limit is None else limit)

    async def put(self, data: bytes, owner: str = "up", *, check: bool = False) -> str:
        """Upload `data` to a new file in the session's folder; the file's name there.

        The file is deleted with the state of the command `owner`. `check`: the Pod counts its bytes.
        """
        async with self._lock:
            for _ in range(1 + UPLOAD_RETRIES):
                name = f"{owner}.{next(self._ids)}-{self._client}"
                try:
                    await upload(await self._connected(), name, data, check=check, settings=self._settings)
                    return name
                except StreamLost:
                    await self._disconnect()
                except BaseException:
                    await self._disconnect()
                    raise
        raise TransferFailed(f"{len(data)} bytes could not be uploaded after {UPLOAD_RETRIES} retries")

    async def close(self) -> None:
        """Close the stream; the Pod is not changed. Later calls raise ClaimEnded."""
        self._closed = True
        if self._keep_alive_task is not None:
            self._keep_alive_task.cancel()
        await self._disconnect()

    async def _result(self, command: PendingCommand) -> wire.ResultFrame:
        while True:
            try:
                return await command.result(await self._connected(command.hello_timeout))
            except StreamLost:
                self._lost_streams += 1
                await self._disconnect()
                command.record_lost_stream()

    async def _connected(self, hello_timeout: float | None = None) -> SessionStream:
        """The open stream. With `hello_timeout` the loop must reply once; then it raises StreamLost."""
        if self._closed:
            raise ClaimEnded("the claim has ended and its sandbox is gone; use it inside its `async with` block")
        if self._stream is None:
            self._stream = await self._reconnect(hello_timeout)
            if self._keep_alive_task is None:
                self._keep_alive_task = asyncio.create_task(self._keep_alive())
            if self._cancelled_command is not None:
                await self._stream.send(wire.kill(self._cancelled_command))
                self._cancelled_command = None
        return self._stream

    async def _reconnect(self, hello_timeout: float | None) -> SessionStream:
        """A new stream; raises as `_no_stream` says after the window of reconnects."""
        settings, clock = self._settings, asyncio.get_running_loop().time
        started, pause, failures = clock(), settings.first_pause, set[type[Exception]]()
        while True:
            try:
                stream = await open_stream(
                    self._connector,
                    self.token,
                    file_limit=self._file_limit,
                    login=self._login,
                    hello_timeout=hello_timeout or settings.hello_timeout,
                )
            except (StreamLost, HandshakeFailed) as error:
                if hello_timeout is not None and isinstance(error, StreamLost):
                    raise
                self._failed_handshakes += 1
                failures.add(type(error))
                window = settings.refused_window if isinstance(error, ExecRefused) else settings.reconnect_window
                if clock() >= started + window:
                    kind = await self._no_stream(failures, error)
                    raise kind(f"no stream to the sandbox for {window:.0f} s: {error}") from error
            else:
                self._worked = True
                return stream
            await asyncio.sleep(pause)
            pause = min(2 * pause, settings.longest_pause)

    async def _no_stream(self, failures: Set[type[Exception]], last: Exception) -> type[SandboxError]:
        """The error of a window without a stream; `failures`: the kinds of its tries.

        Unresponsive where a loop has worked before and each try shows that only the container's shell is the cause:
        image, cluster and runtime work then.
        """
        if isinstance(last, ExecRefused):
            return ExecRefused
        if not self._worked or not failures <= {LoopFailed, LoopSilent}:
            return HandshakeFailed
        if LoopSilent in failures and not await runtime_answers(self._connector, self._settings.probe_timeout):
            return HandshakeFailed
        return Unresponsive

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._settings.keep_alive)
            if self._stream is not None:
                with suppress(StreamLost):
                    await self._stream.keep_alive()

    async def _disconnect(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()
