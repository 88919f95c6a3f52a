"""A command in progress: send it, query it after a reconnect, kill it at its timeout, wait for its result.

Guarantees: a text is sent again only after the Pod has confirmed that it never began. `result` returns the result, or
raises `StreamLost` for each failed stream, or a SandboxLost that explains why there will be no result.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from . import wire
from .errors import StateLost, Unresponsive
from .settings import SessionSettings
from .stream import SessionStream, StreamLost


@dataclass
class PendingCommand:
    """A command that is killed `timeout` seconds after its creation here."""

    id: str
    limit: wire.OutputLimit
    text: str
    timeout: float
    settings: SessionSettings

    def __post_init__(self) -> None:
        if not math.isfinite(self.timeout):
            raise ValueError(f"a command needs a finite timeout in seconds, not {self.timeout}")
        self._now = asyncio.get_running_loop().time
        self.deadline = self._now() + self.timeout
        self.request = wire.run(self.id, self.timeout + self.settings.watchdog_slack, self.limit, self.text)
        self.sent = False  # some stream may have delivered it
        self.killed = False
        self.hello_timeout: float | None = None  # for the next stream, set after the Pod ignored the kill
        self._grace_ends = 0.0  # loop time until which this stream waits for the result of a killed command
        self._failures_after_kill = 0  # streams that brought no result after the kill

    async def result(self, stream: SessionStream) -> wire.ResultFrame:
        """The result, over `stream`; after StreamLost call it with the next stream. Raises StateLost."""
        if self.sent:
            await self._query(stream)
        else:
            self.sent = True
            await stream.send(self.request)
        return await self._await_result(stream)

    def record_lost_stream(self) -> None:
        """Raises Unresponsive at the second stream lost since the kill."""
        if self.killed:
            self._failures_after_kill += 1
        if self._failures_after_kill > 1:
            raise Unresponsive(f"no result of command {self.id} {self.settings.kill_grace:.0f} s after it was killed")

    async def _query(self, stream: SessionStream) -> None:
        if not stream.resumed:
            raise StateLost(f"the record of command {self.id} vanished while its stream was lost: it may have run")
        self.killed, self.hello_timeout = False, None
        await stream.send(wire.query(self.id, self.limit))

    async def _await_result(self, stream: SessionStream) -> wire.ResultFrame:
        started = self._now()
        watchdog_at, ping_at = started + self.settings.watchdog_after, started + self.settings.first_ping
        while True:
            deadline = min(watchdog_at, ping_at, self._grace_ends if self.killed else self.deadline)
            received = await stream.receive(self.limit, deadline)
            if isinstance(received, wire.ResultFrame):
                if received.id == self.id:
                    return received
                raise StreamLost(f"received the result of {received.id} instead of {self.id}")
            if isinstance(received, wire.Reply):
                await self._handle(stream, received)
            now = self._now()
            if now >= watchdog_at:
                watchdog_at = float("inf")
                await stream.send(wire.watchdog(self.id, self.deadline - now + self.settings.watchdog_slack))
            if now >= ping_at:
                ping_at = now + self.settings.next_ping
                await stream.ping()
            await self._enforce_timeout(stream, now)

    async def _enforce_timeout(self, stream: SessionStream, now: float) -> None:
        if not self.killed and now >= self.deadline:
            self.killed, self._grace_ends = True, now + self.settings.kill_grace
            await stream.send(wire.kill(self.id))
        elif self.killed and now >= self._grace_ends:
            self.hello_timeout = self.settings.hello_after_kill
            raise StreamLost(f"no result of {self.id} after it was killed")

    async def _handle(self, stream: SessionStream, reply: wire.Reply) -> None:
        if reply.argument != self.id:
            return
        if reply.word == "unknown":
            await stream.send(self.request)
        elif reply.word == "exists":
            await stream.send(wire.query(self.id, self.limit))
        elif reply.word == "refused":
            raise StateLost(f"command {self.id} was not started: the Pod has no writable folder for its record")
