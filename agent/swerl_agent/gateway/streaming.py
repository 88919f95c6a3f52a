"""A completion as a stream of server-sent events, which has its text when the answer is whole.

Guarantees: while the model is at work the client hears something every KEEP_ALIVE seconds; what is refused before that
is an error of HTTP, later the stream's last event; a client that goes away does not end the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

from aiohttp import web

from . import wire
from .errors import Refusal, internal
from .recording import Body
from .request import ChatRequest

KEEP_ALIVE = 10.0  # seconds; below what clients and proxies wait for a byte
COMMENT = b": keep-alive\n\n"  # which clients skip
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


async def streamed(http: web.Request, asked: ChatRequest, answer: Coroutine[Any, Any, Body]) -> web.StreamResponse:
    """The response to `http`, which asks for `asked`; raises what `answer` raises as long as nothing was sent."""
    answering = asyncio.create_task(answer)
    answering.add_done_callback(_noticed)
    await asyncio.wait({answering}, timeout=KEEP_ALIVE)
    if answering.done():
        answering.result()
    response = web.StreamResponse(headers=HEADERS)
    with contextlib.suppress(ConnectionError):  # the client is gone; the answer is recorded
        await response.prepare(http)
        while not answering.done():
            await response.write(COMMENT)
            await asyncio.wait({answering}, timeout=KEEP_ALIVE)
        for event in _events(asked, answering):
            await response.write(event)
    return response


def _noticed(answering: asyncio.Task[Body]) -> None:
    if not answering.cancelled():
        answering.exception()  # the client may have gone away


def _events(asked: ChatRequest, answering: asyncio.Task[Body]) -> Iterator[bytes]:
    try:
        completion = answering.result()
    except Refusal as refusal:
        yield _event(refusal.body)
    except Exception as error:
        yield _event(internal(error).body)
    else:
        yield from map(_event, wire.chunks(asked, completion))
        yield b"data: [DONE]\n\n"


def _event(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()
