"""An OpenAI-compatible server whose answers a test writes down."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

MODEL = "policy-7b"
Body = dict[str, Any]
Reply = str | Body | web.Response  # text, a message, or a whole response
CHARACTERS = 4  # in one of its tokens


class ChatServer:
    """Answers each request body with the result of `reply`.

    `models` are those it lists (None: it has no list); `key` it wants to be shown; `window` holds prompt and answer.
    """

    def __init__(
        self,
        reply: Callable[[Body], Reply],
        *,
        models: Sequence[str] | None = (MODEL,),
        key: str | None = None,
        window: int | None = None,
        counts: bool = True,
    ) -> None:
        self._reply, self._models, self._key = reply, models, key
        self._window, self._counts = window, counts
        self.requests: list[Body] = []
        self.url = ""

    async def complete(self, request: web.Request) -> web.Response:
        if refusal := self._unauthorized(request):
            return refusal
        body = await request.json()
        self.requests.append(body)
        tokens = len(json.dumps(body["messages"])) // CHARACTERS
        if self._window and tokens + max_answer_tokens(body) > self._window:
            return context_length_error(self._window, tokens)
        reply = self._reply(body)
        if isinstance(reply, web.Response):  # one that was sent cannot be sent again
            return web.Response(body=reply.body, status=reply.status, headers=reply.headers)
        message = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
        completion_tokens = len(json.dumps(message)) // CHARACTERS
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": completion_tokens,
            "prompt_tokens_details": {"cached_tokens": 1},
        }
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return web.json_response({**head, "choices": [choice], **({"usage": usage} if self._counts else {})})

    async def list(self, request: web.Request) -> web.Response:
        if refusal := self._unauthorized(request):
            return refusal
        if self._models is None:
            return error(404, "Not Found")
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]})

    def _unauthorized(self, request: web.Request) -> web.Response | None:
        authorization = request.headers.get("Authorization")
        if self._key is None or authorization == f"Bearer {self._key}":
            return None
        return error(401, f"Incorrect API key provided: {(authorization or 'none').removeprefix('Bearer ')}")


def max_answer_tokens(body: Body) -> int:
    """The longest answer a request allows."""
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or 0)


def error(status: int, message: str, code: str | None = None, **headers: str) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return web.json_response(body, status=status, headers=headers)


def context_length_error(window: int, tokens: int) -> web.Response:
    return error(400, f"This model's maximum context length is {window} tokens. However, you requested {tokens} more.")


def turn(body: Body) -> int:
    """Answers that the conversation of a request has already."""
    return sum(message["role"] == "assistant" for message in body["messages"])


def scripted(*answers: Reply) -> Callable[[Body], Reply]:
    """Answers by their place in the conversation; to what asks for nothing, the last."""
    return lambda body: answers[min(turn(body), len(answers) - 1)]


@asynccontextmanager
async def serving(server: ChatServer) -> AsyncIterator[ChatServer]:
    """`server` with its `url`, listening."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/v1/models", server.list)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()
