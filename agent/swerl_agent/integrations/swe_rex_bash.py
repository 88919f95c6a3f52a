"""A bash that lives from one action to the next: SWE-ReX's session on a terminal stream into the Pod.

Guarantees:
* A command reaches bash as one quoted word, so neither the terminal nor the prompt can change it. A command with a
  syntax error is not run at all.
* An output is exactly the text between two marks that no program can predict, without terminal escapes. The exit code
  is part of the second mark.
* An action waits for an earlier command that still runs, within its own timeout.
* A lost stream raises `ShellLost`: the shell is lost with it, the sandbox is not.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from swerex.exceptions import CommandTimeoutError, SessionNotInitializedError, SwerexException
from swerex.runtime.abstract import BashAction, BashInterruptAction, BashObservation, CreateBashSessionRequest
from swerl_kube import ExecChannel, Unreachable
from swerl_kube.exec import STDOUT

from ..sandbox import HandshakeFailed, PodConnector, SandboxError
from ..sandbox.errors import ExecRefused
from . import bash_text
from .bash_text import WaitResult, without_escapes

SETUP = (Path(__file__).parent / "bash_session.sh").read_text()
NO_BASH = 87  # exit code of START if the image has no bash
START = (
    f"command -v bash >/dev/null || exit {NO_BASH}; stty -echo 2>/dev/null; "
    'exec env TERM=dumb SWERL_MARK="$1" SWERL_SETUP="$2" bash --noediting -i'
)
START_TIMEOUT = 120.0  # seconds until bash replies; a saturated node starts processes slowly
OPEN_WINDOW, OPEN_PAUSE = 60.0, 0.5  # seconds in which a stream is to open, and between retries
STOP_TIMEOUT = 10.0  # seconds until the prompt after the foreground program was stopped
KEEP_ALIVE = 30.0  # seconds between frames that keep proxies from closing an idle stream

# $1: the shell. Stops the foreground process group of its terminal and prints that group.
_STOP = (
    'read -r line </proc/$1/stat; set -- ${line##*") "}; '
    '[ "$6" -gt 0 ] && [ "$6" != "$3" ] && kill -STOP "-$6" && echo "$6"'
)
_KILL = 'kill -KILL "-$1"'
_HANG_UP = (
    "kill -HUP $1 || exit 0; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 || sleep 1; kill -0 $1 || exit 0; done; "
    "kill -KILL $1"
)


class ShellLost(SwerexException, RuntimeError):
    """The session's bash ended, or its stream was lost. The sandbox may still run: open a new session."""


class BashSession:
    """One bash. Its actions run one after the other; an interrupt may run at the same time."""

    def __init__(self, connector: PodConnector, request: CreateBashSessionRequest) -> None:
        self._connector, self._request = connector, request
        self._mark = b"\x1e" + secrets.token_hex(8).encode()
        self._prompt = re.compile(re.escape(self._mark) + rb"\?([^\x1f]*)\x1f")
        self._lock = asyncio.Lock()
        self._channel: ExecChannel | None = None
        self._keep_alive_task: asyncio.Task[None] | None = None
        self._buffer = bytearray()
        self._number = 0
        self._idle = False  # bash waits at its prompt
        self._pid = ""

    async def start(self) -> str:
        """Open the shell and source the startup files; their output.

        Raises SessionNotInitializedError if the image has no bash, CommandTimeoutError, ShellLost, SandboxError.
        """
        command = ["sh", "-c", START, "sh", self._mark[1:].decode(), SETUP]
        self._channel = await self._open(command, tty=True)
        self._keep_alive_task = asyncio.create_task(self._keep_alive())
        deadline = _now() + START_TIMEOUT
        await self._type('eval "$SWERL_SETUP"\n')
        self._pid = await self._read_mark(b"=", deadline)
        await self._read_until([], deadline, "the start of bash")
        if not self._request.startup_source:
            return ""
        sources = "\n".join(f"source {path}" for path in self._request.startup_source)
        action = BashAction(command=sources, timeout=self._request.startup_timeout, check="ignore")
        return (await self.run(action)).output

    async def run(self, action: BashAction) -> BashObservation:
        """Run one action.

        Raises CommandTimeoutError, BashIncorrectSyntaxError, NonZeroExitCodeError, NoExitCodeError, ShellLost.
        """
        interactive = action.is_interactive_command or action.is_interactive_quit
        seconds = float("inf") if action.timeout is None else action.timeout
        async with self._exclusive(_now() + seconds):
            if interactive and not self._idle:
                await self._type(action.command + "\n")
            else:
                await self._send_command(action.command, _now() + seconds)
            what = f"the end of command {action.command!r} ({action.timeout} seconds)"
            result = await self._read_until(action.expect, _now() + seconds, what)
        if interactive:
            return bash_text.interactive_observation(action, result)
        message, refused, _ = result.before.partition(f"{self._mark.decode()}!\x1f")
        if refused:
            raise bash_text.incorrect_syntax(action.command, message)
        return bash_text.command_observation(action, result)

    async def interrupt(self, action: BashInterruptAction) -> BashObservation:
        """Send Ctrl-C until the prompt (or an expected string) appears; stop and kill a program that ignores it.

        Raises CommandTimeoutError when bash itself does not return to its prompt, ShellLost.
        """
        for _ in range(action.n_retry):
            if self._idle:
                break
            await self._type("\x03")
            with suppress(CommandTimeoutError):
                return await self._wait_for_prompt(action.expect, action.timeout)
        if self._idle:
            return BashObservation(exit_code=0)
        if not (group := (await self._run_beside(_STOP, self._pid)).strip()):
            raise CommandTimeoutError("the session could not be interrupted: bash itself is busy and ignores it")
        stopped = await self._wait_for_prompt([], STOP_TIMEOUT)
        await self._run_beside(_KILL, group)
        return stopped

    async def close(self) -> None:
        """Send SIGHUP to bash, which forwards it to its jobs. A job that ignores it lives as long as the sandbox."""
        if self._channel is not None and self._channel.status is None and self._pid:
            with suppress(SandboxError):
                await self._run_beside(_HANG_UP, self._pid)
        await self.drop()

    async def drop(self) -> None:
        """Close the stream; the shell ends with its Pod."""
        channel, self._channel = self._channel, None
        if self._keep_alive_task is not None:
            self._keep_alive_task.cancel()
        if channel is not None:
            await channel.close()

    @asynccontextmanager
    async def _exclusive(self, deadline: float) -> AsyncIterator[None]:
        """Exclusive use of the session; raises CommandTimeoutError when another action has it until `deadline`."""
        try:
            async with _timeout_at(deadline):
                await self._lock.acquire()
        except TimeoutError:
            raise CommandTimeoutError("another action of the session did not end in time") from None
        try:
            yield
        finally:
            self._lock.release()

    async def _send_command(self, command: str, deadline: float) -> None:
        """Send the command to bash at its prompt and read up to the start of its output."""
        if not self._idle:
            await self._read_until([], deadline, "an earlier command: interrupt it first, or give it more time")
        self._idle = False
        self._number += 1
        await self._type(bash_text.input_lines(self._number, command))
        await self._read_mark(b">%d" % self._number, _now() + START_TIMEOUT)

    async def _wait_for_prompt(self, expect: Sequence[str], timeout: float) -> BashObservation:
        """The output until the prompt or an expected string; the action with the lock may see the prompt first."""
        deadline = _now() + timeout
        async with self._exclusive(deadline):
            if self._idle:
                return BashObservation(exit_code=0)
            result = await self._read_until(expect, deadline, "the prompt after an interrupt")
            if self._idle:  # input that the program did not read becomes a line of its own
                await self._type("\n")
                await self._read_until([], _now() + STOP_TIMEOUT, "the prompt after an empty line")
        return BashObservation(output=result.before.strip(), exit_code=0, expect_string=result.expected)

    async def _read_until(self, expect: Sequence[str], deadline: float, what: str) -> WaitResult:
        """Read until the prompt or the first match of the patterns; raises CommandTimeoutError naming `what`."""
        patterns = [re.compile(pattern, re.DOTALL) for pattern in expect]
        searched = 0
        while True:
            prompt = self._prompt.search(self._buffer, max(0, searched - 64))
            if (result := self._expected(patterns, prompt.start() if prompt else None)) is not None:
                return result
            if prompt is not None:
                status = bash_text.exit_code(prompt[1])
                self._idle = True
                return WaitResult(without_escapes(self._take_before(prompt)), bash_text.PROMPT, status)
            searched = len(self._buffer)
            if not await self._read(deadline):
                raise CommandTimeoutError(f"timeout while waiting for {what}")

    def _expected(self, patterns: Sequence[re.Pattern[str]], end: int | None) -> WaitResult | None:
        """The earliest match of the patterns in what came before the prompt, taken out of the buffer."""
        if not patterns:
            return None
        text = self._buffer[:end].decode(errors="surrogateescape")
        matches = [match for pattern in patterns if (match := pattern.search(text))]
        if not matches:
            return None
        first = min(matches, key=re.Match.start)
        del self._buffer[: len(text[: first.end()].encode(errors="surrogateescape"))]
        before = text[: first.start()].encode(errors="surrogateescape")
        return WaitResult(without_escapes(before), first.re.pattern)

    async def _read_mark(self, kind: bytes, deadline: float) -> str:
        """Read past the mark that begins with `kind` and drop the text before it; the rest of the mark."""
        pattern = re.compile(re.escape(self._mark + kind) + rb"([^\x1f]*)\x1f")
        while (match := pattern.search(self._buffer)) is None:
            if not await self._read(deadline):
                raise CommandTimeoutError("bash does not reply")
        rest = match[1].decode()
        self._take_before(match)
        return rest

    def _take_before(self, match: re.Match[bytes]) -> bytes:
        """Remove the buffer up to the end of `match`; the part before `match`."""
        before = bytes(self._buffer[: match.start()])
        del self._buffer[: match.end()]
        return before

    async def _read(self, deadline: float) -> bool:
        """Read once; False when `deadline` passed first. Raises ShellLost, SandboxError."""
        channel = self._open_channel()
        try:
            async with _timeout_at(deadline):
                data = await channel.receive()
        except TimeoutError:
            return False
        if data is None:
            await self._raise_lost(channel)
        else:
            self._buffer += data.payload
        return True

    async def _raise_lost(self, channel: ExecChannel) -> None:
        if channel.status is None:
            await self._connector.check()
            raise ShellLost("the stream to the session was lost and with it the shell: open a new session")
        if channel.status.code == NO_BASH and not self._pid:
            raise SessionNotInitializedError("the image has no bash, which a session needs; `execute` works without it")
        raise ShellLost(
            f"the session's bash has ended (exit code {channel.status.code}): {without_escapes(bytes(self._buffer))}"
        )

    async def _type(self, text: str) -> None:
        channel = self._open_channel()
        try:
            await channel.send(text.encode("utf-8", "surrogateescape"))
        except Unreachable:
            await self._raise_lost(channel)

    async def _open(self, command: Sequence[str], *, tty: bool = False) -> ExecChannel:
        """A new stream, retried while the API server is unavailable; raises SandboxLost, HandshakeFailed."""
        deadline = _now() + OPEN_WINDOW
        while True:
            try:
                return await self._connector.open(command, tty=tty)
            except HandshakeFailed as error:
                if isinstance(error, ExecRefused) or _now() >= deadline:
                    raise
            await asyncio.sleep(OPEN_PAUSE)

    def _open_channel(self) -> ExecChannel:
        if self._channel is None:
            raise SessionNotInitializedError("shell not initialized")
        return self._channel

    async def _run_beside(self, script: str, argument: str) -> str:
        """The output of a script about the session's processes, run in another shell; raises SandboxError."""
        channel = await self._open(["sh", "-c", script, "sh", argument])
        printed = bytearray()
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while (data := await channel.receive()) is not None:
                    printed += data.payload if data.stream == STDOUT else b""
        except TimeoutError:
            raise HandshakeFailed(f"a second shell of the session did not end in {START_TIMEOUT:.0f} s") from None
        finally:
            await channel.close()
        return printed.decode(errors="replace")

    async def _keep_alive(self) -> None:
        with suppress(Unreachable):
            while self._channel is not None:
                await self._channel.resize()
                await asyncio.sleep(KEEP_ALIVE)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _timeout_at(deadline: float) -> asyncio.Timeout:
    return asyncio.timeout_at(None if deadline == float("inf") else deadline)
