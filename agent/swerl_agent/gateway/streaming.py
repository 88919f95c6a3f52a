"""A completion as a stream of server-sent events; its text is sent when the answer is complete.

Guarantees: until then the client receives a comment every `keep_alive` seconds. An error before the first comment is an
HTTP error; a later one is the stream's last event. A client that disconnects does not end the answer.
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

KEEP_ALIVE = 10.0  # seconds; clients and proxies wait longer for a byte
COMMENT = b": keep-alive\n\n"  # clients ignore comments
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


async def streamed(
    http: web.Request, api: Api, exchange: Exchange, answer: Coroutine[Any, Any, Body], *, keep_alive: float
) -> web.StreamResponse:
    """The response to `http`, whose request is `exchange`; a comment goes out every `keep_alive` seconds.

    Raises what `answer` raises as long as nothing was sent.
    """
    answer_task = asyncio.create_task(answer)
    answer_task.add_done_callback(_retrieve_exception)
    await asyncio.wait({answer_task}, timeout=keep_alive)
    if answer_task.done():
        answer_task.result()
    response = web.StreamResponse(headers=HEADERS)
    with contextlib.suppress(ConnectionError):  # the client has disconnected; the answer is recorded anyway
        await response.prepare(http)
        while not answer_task.done():
            await response.write(COMMENT)
            await asyncio.wait({answer_task}, timeout=keep_alive)
        for event in _events(api, exchange, answer_task):
            await response.write(event)
    return response


def _retrieve_exception(answer_task: asyncio.Task[Body]) -> None:
    if not answer_task.cancelled():
        answer_task.exception()  # otherwise asyncio logs it if the client has disconnected


def _events(api: Api, exchange: Exchange, answer_task: asyncio.Task[Body]) -> Iterator[bytes]:
    try:
        completion = answer_task.result()
    except Refusal as refusal:
        yield api.error_event(refusal)
    except Exception as error:
        yield api.error_event(internal(error))
    else:
        yield from exchange.events(exchange.answer(completion))
