"""One stream to the loop of a Pod: opening it, talking over it, noticing that it is dead.

Guarantees: `open_link` returns only when the loop has said hello; every way in which a stream can fail while in use is
`LinkLost`, after which the link is of no use and a new one may ask for what this one missed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..kube import Data, ExitStatus, Unreachable
from ..kube.exec import STDOUT
from . import wire
from .limit import Limit

HELLO_TIMEOUT = 120.0  # seconds; a node at its limit needs long to start a process


class Channel(Protocol):
    """A process with its three streams, wherever it runs."""

    @property
    def status(self) -> ExitStatus | None: ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; raises Unreachable."""
        ...

    async def receive(self) -> Data | None:
        """The next output; None when there will be no more."""
        ...

    async def resize(self) -> None: ...

    async def close(self) -> None: ...


class Connector(Protocol):
    """Starts processes in one particular Pod."""

    async def open(self, command: Sequence[str]) -> Channel:
        """Raises SandboxLost when the Pod is not what it was, HandshakeFailed when it cannot be reached for long."""
        ...


class LinkLost(Exception):
    """The stream is of no use any more; what the Pod did since is unknown to us."""


@dataclass
class Link:
    """A stream whose loop has said hello."""

    channel: Channel
    reader: wire.Reader
    resumed: bool = False  # the loop found the folder of this session

    def __post_init__(self) -> None:
        self._said: deque[wire.Say] = deque()
        self._pinged = False  # and heard nothing since
        self._limit = Limit()

    async def send(self, data: bytes) -> None:
        try:
            await self.channel.send(data)
        except Unreachable as error:
            raise LinkLost(str(error)) from error

    async def keep_alive(self) -> None:
        try:
            await self.channel.resize()
        except Unreachable as error:
            raise LinkLost(str(error)) from error

    async def ping(self) -> None:
        """Ask the loop for a sign of life; raises LinkLost when it gave none since the last time."""
        if self._pinged:
            raise LinkLost("the stream is silent although it was pinged")
        self._pinged = True
        await self.send(wire.PING)

    async def next(self, cut: wire.Cut, until: float) -> wire.Result | wire.Say | None:
        """The next answer; None when the loop's clock passed `until` first."""
        while True:
            if self._said:
                return self._said.popleft()
            try:
                if (result := self.reader.take(cut)) is not None:
                    return result
            except wire.Garbled as error:
                raise LinkLost(str(error)) from error
            try:
                data = await self._limit.wait(self.channel.receive(), until)
            except TimeoutError:
                return None
            if data is None:
                raise LinkLost(f"the stream ended ({self.channel.status or 'no exit status'})")
            self._pinged = False
            if data.stream == STDOUT:
                self.reader.feed(data.payload)
            else:
                self._said.extend(self.reader.feed_control(data.payload))

    async def close(self) -> None:
        self._limit.close()
        await self.channel.close()


async def open_link(connector: Connector, token: str, file_limit: int, login: bool, hello: float | None = None) -> Link:
    """Start a loop for the session `token`; raises LinkLost when it does not come up in `hello` seconds."""
    command, text = wire.bootstrap(token, secrets.token_hex(4), file_limit, login)
    link = Link(await connector.open(command), wire.Reader(token))
    try:
        await link.send(text)
        said = await link.next(wire.Cut(0, 0), asyncio.get_running_loop().time() + (hello or HELLO_TIMEOUT))
        if not isinstance(said, wire.Say) or said.word != "hello":
            raise LinkLost(f"the session loop did not start: {said or 'no answer'}")
    except BaseException:
        await link.close()
        raise
    link.resumed = said.argument == "resumed"
    return link
