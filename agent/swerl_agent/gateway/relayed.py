"""A recording in messages: the model is behind an OpenAI-compatible server, and only the text of its answers is known.

Guarantee: the client gets the server's completion unchanged, so the client itself handles malformed calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from swerl_api import AgentSpec

from swerl_agent.episode import ChatCompletions, ContextFull, CountedWindow
from swerl_agent.episode.chat import generated_text
from swerl_agent.episode.engine import added

from .recording import Body, Recording, Work
from .request import ChatRequest

FIELDS = (  # of a request that are passed on
    *("tools", "tool_choice", "parallel_tool_calls", "stop", "logprobs"),
    *("seed", "chat_template_kwargs", "enable_thinking", "reasoning_effort"),
)
KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")  # of a message that are
CALL_KEYS = ("id", "type", "function")  # of a tool call in it


class RelayedRecording(Recording):
    """Answers with what the server answers, unchanged; model, limits and temperature are the episode's."""

    def __init__(self, server: ChatCompletions, spec: AgentSpec, *, routing_key: str, temperature: float) -> None:
        super().__init__(spec)
        self._server = server
        self._routing_key, self._temperature = routing_key, temperature
        self._window = CountedWindow(spec)
        self._answers = 0
        self._messages: list[dict[str, str]] = []
        self.segments = []

    @property
    def answers(self) -> int:
        return self._answers

    @property
    def messages(self) -> list[dict[str, str]]:
        return self._messages

    def count(self, request: ChatRequest, body: Body) -> int:
        """An estimate, from what the server counted before."""
        return self._window.estimate([*body["messages"], *request.shown_tools])

    def _begin(self, request: ChatRequest, body: Body) -> Work:
        messages = [_passed_on(message) for message in body["messages"]]
        try:
            room = self._window.room(messages)
        except ContextFull as full:
            raise self._full(f"The conversation {full}") from full
        return partial(self._relay, request, body, messages, room)

    async def _relay(self, request: ChatRequest, body: Body, messages: Sequence[Mapping[str, Any]], room: int) -> Body:
        try:
            completion = await self._server.complete(
                messages,
                max_tokens=min(room, request.wanted_tokens or room),
                temperature=self._temperature if request.temperature is None else request.temperature,
                routing_key=self._routing_key,
                **{field: body[field] for field in FIELDS if body.get(field) is not None},
                **request.truncation,
            )
        except ContextFull as full:
            raise self._full(f"The conversation {full}") from full
        self._window.counted(messages, completion.usage.get("prompt_tokens"))
        self.usage = added(self.usage, completion.usage)
        self._answers += 1
        prompt = [{"role": str(message["role"]), "content": generated_text(message)} for message in messages]
        self._messages = [*prompt, {"role": "assistant", "content": completion.text}]
        return completion.body


def _passed_on(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without keys that clients add, since some servers refuse unknown keys."""
    kept = {key: message[key] for key in KEYS if message.get(key) is not None}
    if calls := kept.pop("tool_calls", None):
        kept["tool_calls"] = [{key: call[key] for key in CALL_KEYS if key in call} for call in calls]
    return kept if "content" in kept or calls else {**kept, "content": ""}
