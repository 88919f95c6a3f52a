"""An SGLang-like server whose answers a test provides; runs in a Pod: `python engine_in_a_pod.py ANSWERS.json`.

The prompt alone selects the answer, so a repeated attempt gets the same answers.
`GET /started` returns how often each episode was started.
It also answers chat completions to clients that send its key.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

PORT = 8000
ROUTING_HEADER = "X-SMG-Routing-Key"
OPENING = 2  # closed turns before the first answer: system, user


class Engine:
    """Answers of episodes whose group ends in `-0` are those of `solve`, of others those of `give_up`."""

    def __init__(self, script: dict[str, Any]) -> None:
        self._script = script
        self.started: Counter[str] = Counter()

    async def generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        key = request.headers[ROUTING_HEADER]
        turn = (body["input_ids"].count(self._script["turn_end"]) - OPENING) // 2
        if turn == 0:
            self.started[key] += 1
        await asyncio.sleep(self._script["seconds"])
        answers = self._script["solve" if key.partition("/")[0].endswith("-0") else "give_up"]
        ids = answers[min(turn, len(answers) - 1)]
        entries = [[-0.25, token, None] for token in ids]
        meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": entries}
        return web.json_response({"output_ids": ids, "meta_info": meta})

    async def complete(self, request: web.Request) -> web.Response:
        self._admit(request)
        body = await request.json()
        answers = self._script["answers"]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        message = {"role": "assistant", "content": answers[min(turn, len(answers) - 1)]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(json.dumps(body["messages"])) // 4, "completion_tokens": 9}
        return web.json_response({"model": body["model"], "choices": [choice], "usage": usage})

    async def models(self, request: web.Request) -> web.Response:
        self._admit(request)
        return web.json_response({"data": [{"id": self._script["model"]}]})

    def _admit(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {self._script['key']}":
            raise web.HTTPUnauthorized(text="no such key")

    async def counts(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self.started))


def main() -> None:
    """Serve until killed."""
    engine = Engine(json.loads(Path(sys.argv[1]).read_text()))
    application = web.Application(client_max_size=1 << 26)
    application.add_routes([web.post("/generate", engine.generate), web.get("/started", engine.counts)])
    application.add_routes([web.post("/v1/chat/completions", engine.complete), web.get("/v1/models", engine.models)])
    web.run_app(application, port=PORT)


if __name__ == "__main__":
    main()
