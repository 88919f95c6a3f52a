"""An engine whose answers a test writes down, also behind HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from swerl_agent.episode import Engine, Generation, HFTokenizer
from swerl_agent.episode.engine import ROUTING_HEADER


def block(command: str) -> str:
    return f"THOUGHT: next.\n\n```bash\n{command}\n```"


class Script:
    """An engine that gives the scripted answers, as tokens; an exception in the script is raised."""

    def __init__(self, tokenizer: HFTokenizer, answers: Sequence[str | Exception]) -> None:
        self.tokenizer, self.answers = tokenizer, list(answers)
        self.read: list[str] = []
        self.limits: list[int] = []
        self.keys: set[str] = set()

    async def generate(
        self,
        input_ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        routing_key: str,
        seed: int | None = None,
    ) -> Generation:
        self.read.append(self.tokenizer.decode(input_ids))
        self.limits.append(max_new_tokens)
        self.keys.add(routing_key)
        answer = self.answers.pop(0) if self.answers else block("true")
        if isinstance(answer, Exception):
            raise answer
        ids = [*self.tokenizer.encode(answer), self.tokenizer.turn_end_id]
        reason = "stop" if len(ids) <= max_new_tokens else "length"
        ids = ids[:max_new_tokens]
        return Generation(ids, [-0.25] * len(ids), reason, [("7", 0, len(ids))])


class Scripts:
    """An engine with a script for each routing key; `write` gives the answers of the next episode under a key."""

    def __init__(self, tokenizer: HFTokenizer, write: Callable[[str], Sequence[str | Exception]]) -> None:
        self._tokenizer, self._write = tokenizer, write
        self._scripts: dict[str, Script] = {}
        self.episodes: Counter[str] = Counter()

    async def generate(self, input_ids: Sequence[int], *, routing_key: str, **how: Any) -> Generation:
        script = self._scripts.get(routing_key)
        if script is None or not script.answers:
            script = self._scripts[routing_key] = Script(self._tokenizer, self._write(routing_key))
            self.episodes[routing_key] += 1
        return await script.generate(input_ids, routing_key=routing_key, **how)


@asynccontextmanager
async def served(engine: Engine) -> AsyncIterator[str]:
    """URL at which `engine` answers `/generate` as SGLang does."""

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        settings = {name: body["sampling_params"][name] for name in ("max_new_tokens", "temperature", "stop_token_ids")}
        made = await engine.generate(body["input_ids"], **settings, routing_key=request.headers[ROUTING_HEADER])
        logprobs = [[value, index, None] for value, index in zip(made.logprobs, made.output_ids, strict=True)]
        meta = {"finish_reason": {"type": made.finish_reason}, "output_token_logprobs": logprobs}
        return web.json_response({"output_ids": made.output_ids, "meta_info": meta})

    app = web.Application()
    app.router.add_post("/generate", generate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
