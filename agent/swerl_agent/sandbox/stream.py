"""One stream to the loop of a Pod: open it, exchange messages, detect that it is dead.

Guarantees: `open_stream` returns only after the loop has sent hello. Every failure of an open stream is `StreamLost`;
a new stream can then query what this one missed. It is `LoopFailed` where the container itself shows that no loop can
start there: its shell is missing, ends or sends something else. It is `LoopSilent` where the shell sends nothing.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from swerl_kube import Data, ExitStatus, Unreachable
from swerl_kube.exec import STDOUT

from . import wire
from .errors import HandshakeFailed
from .timeout import ReusableTimeout

# In a runtime's message: the container has no such program. Words of runc, crun and gVisor.
PROGRAM_MISSING = re.compile(r'executable file .*not found|finding executable|\bexec:? "?[\w/]*sh"?: ')


class Channel(Protocol):
    """A process with its three streams, wherever it runs."""

    @property
    def status(self) -> ExitStatus | None: ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; raises Unreachable."""
        ...

    async def receive(self) -> Data | None:
        """The next output; None after the last."""
        ...

    async def resize(self) -> None: ...

    async def close(self) -> None: ...


class Connector(Protocol):
    """Starts processes in one particular Pod."""

    async def open(self, command: Sequence[str]) -> Channel:
        """Raises SandboxLost when the sandbox of this Pod is lost, HandshakeFailed when the Pod cannot be reached."""
        ...


class StreamLost(Exception):
    """The stream has failed; the state of the Pod since then is unknown."""


class LoopFailed(StreamLost):
    """The exec was accepted, but the container's shell is missing, ended or sent something else than hello."""


class LoopSilent(StreamLost):
    """The exec was accepted and its stream stayed open, but nothing came: the shell hangs, or the node does."""


@dataclass
class SessionStream:
    """A stream whose loop has sent hello."""

    channel: Channel
    reader: wire.Reader
    resumed: bool = False  # the loop found the folder of this session

    def __post_init__(self) -> None:
        self._replies: deque[wire.Reply] = deque()
        self._ping_pending = False  # no data has arrived since the last ping
        self._timeout = ReusableTimeout()

    async def send(self, data: bytes) -> None:
        try:
            await self.channel.send(data)
        except Unreachable as error:
            raise StreamLost(str(error)) from error

    async def keep_alive(self) -> None:
        try:
            await self.channel.resize()
        except Unreachable as error:
            raise StreamLost(str(error)) from error

    async def ping(self) -> None:
        """Request a reply from the loop; raises StreamLost when no data has arrived since the last ping."""
        if self._ping_pending:
            raise StreamLost("no reply to ping; connection considered dead")
        self._ping_pending = True
        await self.send(wire.PING)

    async def receive(self, limit: wire.OutputLimit, deadline: float) -> wire.ResultFrame | wire.Reply | None:
        """The next result or reply; None when the event loop's clock passes `deadline` first."""
        while True:
            if self._replies:
                return self._replies.popleft()
            try:
                if (result := self.reader.take(limit)) is not None:
                    return result
            except wire.ProtocolError as error:
                raise StreamLost(str(error)) from error
            try:
                data = await self._timeout.wait(self.channel.receive(), deadline)
            except TimeoutError:
                return None
            if data is None:
                raise StreamLost(f"the stream ended ({self.channel.status or 'no exit status'})")
            self._ping_pending = False
            if data.stream == STDOUT:
                self.reader.feed(data.payload)
            else:
                self._replies.extend(self.reader.feed_control(data.payload))

    async def close(self) -> None:
        self._timeout.close()
        await self.channel.close()


async def open_stream(
    connector: Connector, token: str, *, file_limit: int, login: bool, hello_timeout: float
) -> SessionStream:
    """Start a loop for the session `token`; raises StreamLost when it does not start in `hello_timeout` seconds.

    LoopFailed, a StreamLost, where the container is the cause; LoopSilent where nothing came.
    """
    command, text = wire.bootstrap(token, secrets.token_hex(4), file_limit, login)
    stream = SessionStream(await connector.open(command), wire.Reader(token))
    try:
        reply = await _first_reply(stream, text, hello_timeout)
    except BaseException:
        await stream.close()
        raise
    stream.resumed = reply.argument == "resumed"
    return stream


async def _first_reply(stream: SessionStream, text: bytes, seconds: float) -> wire.Reply:
    """The hello of the loop that `text` starts; raises StreamLost, or LoopFailed, without one."""
    deadline = asyncio.get_running_loop().time() + seconds
    lost: StreamLost | None = None
    try:
        await stream.send(text)
    except StreamLost as error:  # of a program that has ended already there is a status
        lost = error
    try:
        reply = await stream.receive(wire.OutputLimit(0, 0), deadline)
    except StreamLost as error:
        if isinstance(error.__cause__, wire.ProtocolError) or _container_failed(stream.channel.status):
            raise LoopFailed(f"the session loop did not start: {error}") from error
        raise
    if lost is not None:
        raise lost
    if isinstance(reply, wire.Reply) and reply.word == "hello":
        return reply
    kind = LoopSilent if reply is None else LoopFailed
    raise kind(f"the session loop did not start: {reply or 'no answer'}")


async def runtime_answers(connector: Connector, seconds: float) -> bool:
    """Whether the runtime reports within `seconds` that the container lacks a program which no image has.

    Then node and runtime work, without a program of the image: a shell that sends nothing hangs by itself. Raises
    SandboxLost when the sandbox is lost.
    """
    try:
        channel = await connector.open([f"absent-{secrets.token_hex(8)}"])
    except HandshakeFailed:
        return False
    try:
        async with asyncio.timeout(seconds):
            while await channel.receive() is not None:
                pass
    except TimeoutError:
        return False
    finally:
        await channel.close()
    return _container_failed(channel.status)


def _container_failed(status: ExitStatus | None) -> bool:
    """Whether the container's program ended or is missing; False where the connection or the runtime failed."""
    return status is not None and (status.code is not None or PROGRAM_MISSING.search(status.message) is not None)
