"""One episode as the gateway sees it: its limits, what was sampled in it, and how it was cut short.

Guarantees: what was sampled is recorded, also when nobody waits for it any more; after `close` nothing is sampled and
every request is refused; a lost engine is told apart from all that the agent or the model does.
"""

from __future__ import annotations

import asyncio
import time

from swerl_agent.episode import AgentLimits, Engine, EngineError, HFTokenizer, Stretch, TokenizerError
from swerl_agent.episode.engine import added

from .answers import Answer, answer
from .errors import Refusal, closed, ended, invalid
from .request import ChatRequest
from .tree import Context, Tree


class Recording:
    """Answers the requests of one episode, at any number at once, until its limits; time begins now."""

    def __init__(
        self, engine: Engine, tokenizer: HFTokenizer, limits: AgentLimits, *, routing_key: str, temperature: float
    ) -> None:
        self._engine, self._limits = engine, limits
        self._routing_key, self._temperature = routing_key, temperature
        self._tree = Tree(tokenizer)
        self._deadline = asyncio.get_running_loop().time() + limits.episode_timeout
        self._sampling: set[asyncio.Task[Answer]] = set()
        self._calls = 0  # that were let in
        self._closed = False
        self.refused: str | None = None  # exit status of an Episode that ends for the newest refusal
        self.usage: dict[str, float] = {}  # sums of what the engine said of its requests, see Generation
        self.seconds = 0.0  # spent waiting for the engine, of all requests together
        self.lost: asyncio.Future[EngineError] = asyncio.get_running_loop().create_future()  # what ended the engine

    @property
    def stretches(self) -> list[Stretch]:
        """The tokens of the episode; the list grows with it."""
        return self._tree.stretches

    @property
    def answers(self) -> int:
        """Answers of the model."""
        return self._tree.answers

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation of the newest answer, answers as they were sampled."""
        return self._tree.messages

    async def answer(self, request: ChatRequest) -> Answer:
        """The model's answer, recorded. Raises Refusal."""
        self._admit()
        context, room = self._read(request)
        self._calls += 1
        sampling = asyncio.create_task(self._sample(request, context, room))
        self._sampling.add(sampling)
        sampling.add_done_callback(self._sampling.discard)
        await asyncio.wait({sampling})  # who goes away meanwhile does not end it
        if sampling.cancelled():
            raise closed()
        self.refused = None if sampling.exception() is None else self.refused
        return sampling.result()

    def close(self) -> None:
        """End the episode; requests under way are refused."""
        self._closed = True
        for sampling in self._sampling:
            sampling.cancel()
        self.lost.cancel()

    def _admit(self) -> None:
        if self._closed:
            raise closed()
        if self.lost.done():
            raise _engine_lost(self.lost.result())
        if asyncio.get_running_loop().time() >= self._deadline:
            raise self._out_of_time()
        if self._calls >= self._limits.step_limit:
            self.refused = "max_steps"
            raise ended("max_steps", f"the episode has had its {self._limits.step_limit} answers (stepLimit)")

    def _read(self, request: ChatRequest) -> tuple[Context, int]:
        """What the model reads, and the tokens left for its answer."""
        at_fault = "tools"
        try:
            self._tree.tokenizer(request.shown_tools)
            at_fault = "messages"
            context = self._tree.context(request)
        except TokenizerError as error:
            raise invalid(f"{at_fault}: {error}", at_fault) from error
        length, window = len(context.ids), self._limits.context_tokens
        if length >= window:
            self.refused = "context_overflow" if self.answers else "prompt_too_long"
            message = f"This model's maximum context length is {window} tokens; the messages have {length}."
            raise invalid(message, "messages", code="context_length_exceeded")
        return context, window - length

    async def _sample(self, request: ChatRequest, context: Context, room: int) -> Answer:
        tokenizer = self._tree.tokenizer(request.shown_tools)
        limits = [limit for limit in (room, self._limits.max_tokens_per_turn, request.wanted_tokens) if limit]
        started = time.monotonic()
        try:
            async with asyncio.timeout_at(self._deadline) as timeout:
                generation = await self._engine.generate(
                    context.ids,
                    max_new_tokens=min(limits),
                    temperature=self._temperature if request.temperature is None else request.temperature,
                    stop_token_ids=tokenizer.stop_token_ids,
                    routing_key=self._routing_key,
                )
            said = answer(tokenizer, generation, request, prompt_tokens=len(context.ids))
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
        self.usage = added(self.usage, generation.usage)
        self._tree.record(context, said.generation, said.message, said.text)
        return said

    def _out_of_time(self) -> Refusal:
        self.refused = "episode_timeout"
        return ended("episode_timeout", f"the episode's {self._limits.episode_timeout:g} seconds are over")


def _engine_lost(error: EngineError) -> Refusal:
    return Refusal(503, "server_error", "engine_lost", f"the inference engine is lost: {error}")
