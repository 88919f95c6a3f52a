"""Requests to the API server over one aiohttp session.

Guarantees: every call has a total timeout and a watch without data is closed; a failure is a `KubeError`. A request
that the server asks to repeat later is repeated then, of any kind (see retry_after.py). Reads are also repeated
when the server was not reached or failed. A write that may have been carried out is sent once: only the caller knows
whether repeating it is harmless.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict

from .cluster_config import ClusterConfig
from .errors import ApiError, KubeError, Unauthorized, Unavailable, Unreachable, answer_error
from .retry_after import LONGEST_WAIT, next_wait
from .unanswered import UnansweredNotice

Json = dict[str, Any]
Query = Mapping[str, str] | Sequence[tuple[str, str]]
Observer = Callable[[str, int | None, float], None]  # method, status (None: no answer), seconds

RETRY_PAUSE = 0.25  # seconds before a read's first retry, doubled each time
CONNECT_TIMEOUT = 10.0  # seconds until a stream is connected
LINE_BUFFER = 4 << 20  # bytes; a watch event is one line, and an object may have 1.5 MiB


@dataclass(frozen=True)
class ClientOptions:
    """How a client uses its API server."""

    call_timeout: float = 30.0  # seconds for one request and its answer
    connections: int = 0  # requests at the same time, not counting watches and exec streams; 0: no limit
    read_retries: int = 3  # how often a failed read is repeated
    watch_idle_timeout: float = 75.0  # seconds without a byte until a watch counts as dead; bookmarks come each minute
    cached_lists: bool = False  # lists may be served from the API server's cache (resourceVersion=0)
    longest_wait: float = LONGEST_WAIT  # seconds that one call waits in all because the server asks for it
    exec_protocols: tuple[str, ...] = ("v4.channel.k8s.io", "v5.channel.k8s.io")  # in order of preference


class Transport:
    """One identity at one API server; use with `async with`, inside one event loop."""

    def __init__(
        self, config: ClusterConfig, options: ClientOptions | None = None, *, observer: Observer | None = None
    ) -> None:
        self._config = config
        self.options = options or ClientOptions()
        self._observer = observer
        self._http: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(self.options.connections) if self.options.connections else nullcontext()
        self._unanswered = UnansweredNotice(config.server)
        self._closing: list[Callable[[], Awaitable[None]]] = []

    @property
    def config(self) -> ClusterConfig:
        """The API server and the identity there."""
        return self._config

    @property
    def namespace(self) -> str:
        """Default namespace of the context or of the Pod."""
        return self._config.namespace

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._config.server

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._config.tls or True, limit=0, ttl_dns_cache=60)
        self._http = aiohttp.ClientSession(
            connector=connector, read_bufsize=LINE_BUFFER, trust_env=False, proxy=self._config.proxy
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._closing:
            await self._closing.pop()()
        self._unanswered.stop()
        if self._http is not None:
            await self._http.close()
            self._http = None

    def on_close(self, action: Callable[[], Awaitable[None]]) -> None:
        """Await `action()` before the connections are closed."""
        self._closing.append(action)

    @property
    def http(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise KubeError("the client is not open: use it inside `async with`")
        return self._http

    async def headers(self) -> CIMultiDict[str]:
        """Authorization, renewed where it was about to expire, and the user to act as; raises ConfigError."""
        await self._config.credentials.refresh()
        headers = CIMultiDict(self._config.impersonation)
        if authorization := self._config.credentials.authorization():
            headers["Authorization"] = authorization
        return headers

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Query | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """The decoded answer."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        content = await self._repeated(method, path, query, data, content_type if data is not None else None)
        answer: Json = json.loads(content) if content else {}
        return answer

    async def read(self, path: str, query: Query | None = None) -> bytes:
        """The content of a GET, retried `read_retries` times."""
        pause = RETRY_PAUSE
        for _ in range(self.options.read_retries):
            try:
                return await self._repeated("GET", path, query)
            except Unavailable as error:
                if error.retry_after is not None:  # it was waited for, as long as a call waits
                    raise
                await asyncio.sleep(pause)
                pause *= 2
        return await self._repeated("GET", path, query)

    async def refusal(self, path: str, query: Query) -> ApiError | Unavailable | None:
        """Why the server refuses a GET; None when it does not, or does not answer."""
        try:
            await self._repeated("GET", path, query)
        except Unreachable:
            return None
        except (ApiError, Unavailable) as error:
            return error
        return None

    async def events(self, path: str, query: Query) -> AsyncIterator[Json]:
        """Raw watch events until the server ends the stream; raises Expired, Unreachable and the like."""
        request, timeout = f"WATCH {path}", self._stream_timeout(self.options.watch_idle_timeout)
        try:
            async with self.http.get(
                self.server + path, params=query, headers=await self.headers(), timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise self._refused(request, answer.status, await answer.text(), answer.headers)
                async for line in answer.content:
                    yield _event(request, line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"{request}: the stream broke: {type(error).__name__}: {error}") from error

    async def chunks(self, path: str, query: Query, *, silence: float) -> AsyncIterator[bytes]:
        """The content of a GET as it arrives, until it ends; Unreachable after `silence` seconds without a byte."""
        request = f"GET {path}"
        try:
            async with self.http.get(
                self.server + path, params=query, headers=await self.headers(), timeout=self._stream_timeout(silence)
            ) as answer:
                if answer.status >= 400:
                    raise self._refused(request, answer.status, await answer.text(), answer.headers)
                async for chunk in answer.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{request}: {type(error).__name__}: {error}") from error

    async def _repeated(
        self, method: str, path: str, query: Query | None, data: bytes | None = None, content_type: str | None = None
    ) -> bytes:
        """The answer, after retries while the server answers with Retry-After."""
        waited = 0.0
        while True:
            try:
                return await self._send(method, path, query, data, content_type)
            except Unavailable as error:
                pause = next_wait(error.retry_after, waited, self.options.longest_wait)
                if pause is None:
                    raise
            await asyncio.sleep(pause)
            waited += pause

    async def _send(
        self, method: str, path: str, query: Query | None, data: bytes | None, content_type: str | None
    ) -> bytes:
        headers = await self.headers()
        if content_type:
            headers["Content-Type"] = content_type
        started, status, request = time.monotonic(), None, f"{method} {path}"
        self._unanswered.request_sent(request)
        try:
            async with (
                asyncio.timeout(self.options.call_timeout),
                self._slots,
                self.http.request(
                    method, self.server + path, params=query, data=data, headers=headers, timeout=NO_TIMEOUT
                ) as answer,
            ):
                self._unanswered.answered()
                content, status = await answer.read(), answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{request}: {self.server}: {type(error).__name__}: {error}") from error
        finally:
            if self._observer is not None:
                self._observer(method, status, time.monotonic() - started)
        if status >= 400:
            raise self._refused(request, status, content.decode(errors="replace"), answer.headers)
        return content

    def _refused(self, request: str, status: int, body: str, headers: Mapping[str, str]) -> ApiError | Unavailable:
        error = answer_error(request, status, body, headers)
        if isinstance(error, Unauthorized):
            self._config.credentials.reject()
        return error

    def _stream_timeout(self, silence: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=silence)


NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # of aiohttp's own: the call's includes the wait for a slot


def _event(request: str, line: bytes) -> Json:
    event: Json = json.loads(line)
    if event["type"] == "ERROR":
        raise answer_error(request, int(event["object"].get("code") or 500), json.dumps(event["object"]))
    return event
