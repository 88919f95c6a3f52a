"""A recording in tokens: what training needs of the answers."""

from __future__ import annotations

from functools import partial
from typing import Any

from swerl_api import AgentSpec

from swerl_agent.episode import Engine, HFTokenizer, TokenizerError
from swerl_agent.episode.engine import added

from . import wire
from .answers import answer
from .errors import invalid
from .recording import Body, Recording, Work
from .request import ChatRequest
from .tree import Context, Tree


class SampledRecording(Recording):
    """Answers by sampling tokens, which are kept as they were read and sampled."""

    def __init__(
        self, engine: Engine, tokenizer: HFTokenizer, spec: AgentSpec, *, routing_key: str, temperature: float
    ) -> None:
        super().__init__(spec)
        self._engine = engine
        self._routing_key, self._temperature = routing_key, temperature
        self._tree = Tree(tokenizer)
        self.segments = self._tree.segments

    @property
    def answers(self) -> int:
        return self._tree.answers

    @property
    def messages(self) -> list[dict[str, str]]:
        return self._tree.messages

    def count(self, request: ChatRequest, body: Body) -> int:
        return len(self._context(request).ids)

    def _begin(self, request: ChatRequest, body: Body) -> Work:
        context = self._context(request)
        length, window = len(context.ids), self._spec.context_tokens
        if length >= window:
            raise self._full(f"This model's maximum context length is {window} tokens; the messages have {length}.")
        return partial(self._sample, request, context, window - length)

    def _context(self, request: ChatRequest) -> Context:
        """What the model reads."""
        at_fault = "tools" if request.shown_tools else "chat_template_kwargs"
        try:
            self._tree.tokenizer(request)
            at_fault = "messages"
            return self._tree.context(request)
        except TokenizerError as error:
            raise invalid(f"{at_fault}: {error}", at_fault) from error

    async def _sample(self, request: ChatRequest, context: Context, room: int) -> Body:
        tokenizer = self._tree.tokenizer(request)
        limits = [limit for limit in (room, self._spec.max_tokens_per_turn, request.wanted_tokens) if limit]
        sampling: dict[str, Any] = {"seed": request.seed, "truncation": request.truncation}
        generation = await self._engine.generate(
            context.ids,
            max_new_tokens=min(limits),
            temperature=self._temperature if request.temperature is None else request.temperature,
            stop_token_ids=tokenizer.stop_token_ids,
            routing_key=self._routing_key,
            **{name: value for name, value in sampling.items() if value not in (None, {})},
        )
        sampled = answer(tokenizer, generation, request, prompt_tokens=len(context.ids))
        self.usage = added(self.usage, generation.usage)
        self._tree.record(context, sampled.generation, sampled.message, sampled.text)
        return wire.completion(request, sampled)
