"""One episode as the gateway sees it: its limits, the model's answers, and how it was cut short.

Guarantees: an answer of the model is recorded, also when its client has disconnected; after `close` every request is
refused; a lost engine is distinguished from every failure of the agent or the model.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from swerl_api import AgentSpec

from swerl_agent.episode import EngineError, TokenSegment

from .errors import Refusal, closed, ended, invalid
from .request import ChatRequest

Body = Mapping[str, Any]  # of a request or a completion, in OpenAI's format
Work = Callable[[], Awaitable[Body]]


class Recording(ABC):
    """Answers the concurrent requests of one episode within its limits; its time starts now."""

    segments: list[TokenSegment]
    """The tokens of the episode; the list grows with it, and stays empty where only text is known."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._deadline = asyncio.get_running_loop().time() + spec.episode_timeout_seconds
        self._requests: set[asyncio.Task[Body]] = set()
        self._calls = 0  # admitted
        self._closed = False
        self.stored: dict[str, list[dict[str, Any]]] = {}  # conversations by the id of the response that ends them
        self.refused: str | None = None  # exit status that the newest refusal gives the Episode
        self.usage: dict[str, float] = {}  # sums of the engine's figures of its requests, see Generation
        self.seconds = 0.0  # spent waiting for the engine, of all requests together
        self.lost: asyncio.Future[EngineError] = asyncio.get_running_loop().create_future()  # the engine's loss

    @property
    @abstractmethod
    def answers(self) -> int:
        """Answers of the model."""

    @property
    @abstractmethod
    def messages(self) -> list[dict[str, str]]:
        """The conversation of the newest answer, answers as the model gave them."""

    @abstractmethod
    def _begin(self, request: ChatRequest, body: Body) -> Work:
        """The work of querying the model and recording its answer; raises Refusal for an invalid request.

        The work raises Refusal and EngineError.
        """

    @abstractmethod
    def count(self, request: ChatRequest, body: Body) -> int:
        """Tokens of a request's messages and tools; raises Refusal for an invalid request."""

    async def answer(self, request: ChatRequest, body: Body) -> Body:
        """The completion for `request`, which was read from `body`. Raises Refusal."""
        self._admit()
        work = self._begin(request, body)
        self._calls += 1
        asking = asyncio.create_task(self._in_time(work))
        self._requests.add(asking)
        asking.add_done_callback(self._requests.discard)
        await asyncio.wait({asking})  # a disconnected client does not cancel it
        if asking.cancelled():
            raise closed()
        self.refused = None if asking.exception() is None else self.refused
        return asking.result()

    def close(self) -> None:
        """End the episode; requests under way are refused."""
        self._closed = True
        for asking in self._requests:
            asking.cancel()
        self.lost.cancel()

    def _full(self, message: str) -> Refusal:
        """The refusal of a request that does not fit into the window."""
        self.refused = "context_overflow" if self.answers else "prompt_too_long"
        return invalid(message, "messages", code="context_length_exceeded")

    def _admit(self) -> None:
        if self._closed:
            raise closed()
        if self.lost.done():
            raise _engine_lost(self.lost.result())
        if asyncio.get_running_loop().time() >= self._deadline:
            raise self._out_of_time()
        if self._calls >= self._spec.step_limit:
            self.refused = "max_steps"
            raise ended("max_steps", f"the episode has reached stepLimit ({self._spec.step_limit} answers)")

    async def _in_time(self, work: Work) -> Body:
        started = time.monotonic()
        try:
            async with asyncio.timeout_at(self._deadline) as timeout:
                return await work()
        except EngineError as error:
            if not self.lost.done():
                self.lost.set_result(error)
            raise _engine_lost(error) from error
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._out_of_time() from None
        finally:
            self.seconds += time.monotonic() - started

    def _out_of_time(self) -> Refusal:
        self.refused = "episode_timeout"
        return ended("episode_timeout", f"the episode's {self._spec.episode_timeout_seconds:g} seconds are over")


def _engine_lost(error: EngineError) -> Refusal:
    return Refusal(503, "server_error", "engine_lost", f"the inference engine is lost: {error}")
