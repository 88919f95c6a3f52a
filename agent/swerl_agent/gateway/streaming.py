"""A completion as a stream of server-sent events, which has its text when the answer is whole.

Guarantees: while the model is at work the client hears something every KEEP_ALIVE seconds; what is refused before that
is an error of HTTP, later the stream's last event; a client that goes away does not end the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

from aiohttp import web

from .errors import Refusal, internal
from .exchange import Api, Exchange
from .recording import Body

KEEP_ALIVE = 10.0  # seconds; below what clients and proxies wait for a byte
COMMENT = b": keep-alive\n\n"  # which clients skip
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


async def streamed(
    http: web.Request, api: Api, exchange: Exchange, answer: Coroutine[Any, Any, Body]
) -> web.StreamResponse:
    """The response to `http`, whose request is `exchange`; raises what `answer` raises as long as nothing was sent."""
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
        for event in _events(api, exchange, answering):
            await response.write(event)
    return response


def _noticed(answering: asyncio.Task[Body]) -> None:
    if not answering.cancelled():
        answering.exception()  # the client may have gone away


def _events(api: Api, exchange: Exchange, answering: asyncio.Task[Body]) -> Iterator[bytes]:
    try:
        completion = answering.result()
    except Refusal as refusal:
        yield api.error_event(refusal)
    except Exception as error:
        yield api.error_event(internal(error))
    else:
        yield from exchange.events(exchange.answer(completion))
