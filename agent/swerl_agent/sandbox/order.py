"""One command on its way: sent, asked for again on the next stream, stopped for its time, awaited.

Guarantees: a text is sent anew only where the Pod said that it never began; `fulfil` ends with the result, with
`LinkLost` as often as a stream fails, or with a SandboxLost that says why there will be no result.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from . import wire
from .errors import StateLost, Unresponsive
from .link import Link, LinkLost

FIRST_PING = 10.0  # seconds until a command's stream is asked for a sign of life: most are done by then
NEXT_PING = 30.0  # seconds until it is asked again, and the last answer must be there; a node at its limit is slow
GUARD_AFTER = 2.0  # seconds a command runs before the Pod itself watches its time: few need that process
GUARD_SLACK = 5.0  # seconds the Pod's watch leaves to the client's own kill
KILL_GRACE = 15.0  # seconds from the kill to the result; then the stream is opened anew, once
MUTE_HELLO = 30.0  # seconds the loop of that new stream has to come up: the Pod may be beyond help


@dataclass
class Order:
    """A command; `seconds` from now it is killed."""

    id: str
    cut: wire.Cut
    text: str
    seconds: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.seconds):
            raise ValueError(f"a command needs a time limit in seconds, not {self.seconds}")
        self._now = asyncio.get_running_loop().time
        self.deadline = self._now() + self.seconds
        self.request = wire.run(self.id, self.seconds + GUARD_SLACK, self.cut, self.text)
        self.sent = False  # some stream may have delivered it
        self.killed = False
        self.hello: float | None = None  # seconds for the next stream to say hello, set where the Pod ignored the kill
        self._grace_ends = 0.0  # loop time until which the result of a killed command is awaited on this stream
        self._strikes = 0  # streams that brought no result after the kill

    async def fulfil(self, link: Link) -> wire.Result:
        """The result, over `link`; after LinkLost try the next one. Raises StateLost."""
        if self.sent:
            await self._ask_again(link)
        else:
            self.sent = True
            await link.send(self.request)
        return await self._await_result(link)

    def count_strike(self) -> None:
        """A stream was lost; raises Unresponsive when that was the second since the kill."""
        if self.killed:
            self._strikes += 1
        if self._strikes > 1:
            raise Unresponsive(f"no result of command {self.id}, not even {KILL_GRACE:.0f} s after it was killed")

    async def _ask_again(self, link: Link) -> None:
        if not link.resumed:
            raise StateLost(f"the record of command {self.id} vanished while its stream was lost: it may have run")
        self.killed, self.hello = False, None
        await link.send(wire.ask(self.id, self.cut))

    async def _await_result(self, link: Link) -> wire.Result:
        began = self._now()
        guard_at, ping_at = began + GUARD_AFTER, began + FIRST_PING
        while True:
            until = min(guard_at, ping_at, self._grace_ends if self.killed else self.deadline)
            answer = await link.next(self.cut, until)
            if isinstance(answer, wire.Result):
                if answer.id == self.id:
                    return answer
                raise LinkLost(f"got the result of {answer.id}, not of {self.id}")
            if isinstance(answer, wire.Say):
                await self._heed(link, answer)
            now = self._now()
            if now >= guard_at:
                guard_at = float("inf")
                await link.send(wire.guard(self.id, self.deadline - now + GUARD_SLACK))
            if now >= ping_at:
                ping_at = now + NEXT_PING
                await link.ping()
            await self._mind_time(link, now)

    async def _mind_time(self, link: Link, now: float) -> None:
        if not self.killed and now >= self.deadline:
            self.killed, self._grace_ends = True, now + KILL_GRACE
            await link.send(wire.kill(self.id))
        elif self.killed and now >= self._grace_ends:
            self.hello = MUTE_HELLO
            raise LinkLost(f"no result of {self.id} after it was killed")

    async def _heed(self, link: Link, said: wire.Say) -> None:
        if said.argument != self.id:
            return
        if said.word == "unknown":
            await link.send(self.request)
        elif said.word == "claimed":
            await link.send(wire.ask(self.id, self.cut))
        elif said.word == "refused":
            raise StateLost(f"command {self.id} was not started: the Pod has no writable folder to note it in")
