"""The Kubernetes API as JSON over one aiohttp connector.

Guarantees: objects go in and come out as plain dicts, never deserialised further; every call has a total timeout; an
error is a `KubeError` (see errors.py). What the server turned away with a time to come back is sent again then (see
swerl_api.retry_after). Reads are repeated also when the server could not be reached or failed; a write that may have
been carried out is sent once, because only the caller knows whether repeating it is harmless.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
from swerl_api.retry_after import next_wait

from . import config
from .errors import ApiError, KubeError, ServerError, Throttled, Unreachable, api_error
from .exec import HANDSHAKE_ATTEMPTS, ExecChannel, open_exec
from .paths import resource_path
from .watch import Event, watch

Json = dict[str, Any]
Query = Mapping[str, str] | Sequence[tuple[str, str]]

CALL_TIMEOUT = 30.0  # seconds for one request and its answer
READ_ATTEMPTS = 4  # a read is tried this often, with pauses of RETRY_PAUSE, doubled each time
RETRY_PAUSE = 0.25
LINE_BUFFER = 4 << 20  # bytes; a watch event is one line, and an object may have 1.5 MiB


class KubeClient:
    """One identity at one API server; use with `async with`, inside one event loop."""

    def __init__(self, settings: config.ClusterConfig) -> None:
        self._settings = settings
        self._http: aiohttp.ClientSession | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []

    @classmethod
    def from_environment(cls, kubeconfig: str | None = None) -> Self:
        """From `kubeconfig`, $KUBECONFIG, the Pod's service account or ~/.kube/config; raises ConfigError."""
        return cls(config.load(kubeconfig))

    @property
    def namespace(self) -> str:
        """Default namespace of the context or of the Pod."""
        return self._settings.namespace

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._settings.server

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._settings.tls or True, limit=0, ttl_dns_cache=60)
        self._http = aiohttp.ClientSession(connector=connector, read_bufsize=LINE_BUFFER, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._closing:
            await self._closing.pop()()
        if self._http is not None:
            await self._http.close()
            self._http = None

    def on_close(self, action: Callable[[], Awaitable[None]]) -> None:
        """Await `action()` before the connections are closed; what lives on this client ends with it."""
        self._closing.append(action)

    @property
    def http(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise KubeError("the client is not open: use it inside `async with`")
        return self._http

    def headers(self) -> dict[str, str]:
        """Credentials as they are now."""
        token = self._settings.token.read()
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def get(self, api: str, resource: str, namespace: str | None, name: str) -> Json:
        return await self._read("GET", resource_path(api, resource, namespace, name))

    async def list(
        self,
        api: str,
        resource: str,
        namespace: str | None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Json:
        """The List object: `items` and `metadata.resourceVersion`."""
        query = _selectors(label_selector, field_selector)
        return await self._read("GET", resource_path(api, resource, namespace), query)

    async def create(self, api: str, resource: str, namespace: str | None, body: Mapping[str, Any]) -> Json:
        return await self._call("POST", resource_path(api, resource, namespace), body=body)

    async def patch(
        self,
        api: str,
        resource: str,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Json:
        """JSON merge patch (RFC 7386)."""
        path = resource_path(api, resource, namespace, name, subresource)
        return await self._call("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def delete(
        self,
        api: str,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
    ) -> Json:
        """Delete; with `uid` only that very object (else Conflict). Raises NotFound when there is none."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        return await self._call("DELETE", resource_path(api, resource, namespace, name), body=options)

    def watch(
        self,
        api: str,
        resource: str,
        namespace: str | None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> AsyncIterator[Event]:
        """Every object now and every change from now on; never ends by itself (see watch.py)."""
        return watch(self, resource_path(api, resource, namespace), _selectors(label_selector, field_selector))

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        limit_bytes: int | None = None,
        tail_lines: int | None = None,
    ) -> bytes:
        """The container's log as it is now, at most `limit_bytes` from its start."""
        query = {"container": container, "limitBytes": limit_bytes, "tailLines": tail_lines}
        path = resource_path("v1", "pods", namespace, pod, "log")
        return await self._retried("GET", path, {key: str(value) for key, value in query.items() if value is not None})

    async def exec_stream(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str | None = None,
        stdin: bool = True,
        tty: bool = False,
        attempts: int = HANDSHAKE_ATTEMPTS,
    ) -> ExecChannel:
        """Start `command` in a running container, with `tty` on a terminal of its own, which has no standard error.

        What can pass is tried `attempts` times, with growing pauses.
        Raises HandshakeError, NotFound or Unreachable (see exec.py).
        """
        return await open_exec(
            self, namespace, pod, command, container=container, stdin=stdin, tty=tty, attempts=attempts
        )

    async def refusal(self, path: str, query: Query) -> ApiError | None:
        """Why the server refuses a GET; None when it does not, or does not answer."""
        try:
            await self._bytes("GET", path, query)
        except ApiError as error:
            return error
        except Unreachable:
            pass
        return None

    async def _read(self, method: str, path: str, query: Query | None = None) -> Json:
        answer: Json = json.loads(await self._retried(method, path, query))
        return answer

    async def _retried(self, method: str, path: str, query: Query | None) -> bytes:
        pause = RETRY_PAUSE
        for _ in range(READ_ATTEMPTS - 1):
            try:
                return await self._bytes(method, path, query)
            except (Unreachable, Throttled, ServerError) as error:
                if error.retry_after is not None:  # it was waited for, as long as a call waits
                    raise
                await asyncio.sleep(pause)
                pause *= 2
        return await self._bytes(method, path, query)

    async def _call(
        self, method: str, path: str, *, body: Mapping[str, Any], content_type: str = "application/json"
    ) -> Json:
        data = json.dumps(body, separators=(",", ":")).encode()
        answer: Json = json.loads(await self._bytes(method, path, None, data, content_type))
        return answer

    async def _bytes(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None = None,
        content_type: str | None = None,
    ) -> bytes:
        """The answer, once the server no longer asks to come back later."""
        waited = 0.0
        while True:
            try:
                return await self._send(method, path, query, data, content_type)
            except (Throttled, ServerError) as error:
                pause = next_wait(error.retry_after, waited)
                if pause is None:
                    raise
            await asyncio.sleep(pause)
            waited += pause

    async def _send(
        self, method: str, path: str, query: Query | None, data: bytes | None, content_type: str | None
    ) -> bytes:
        headers = self.headers() | ({"Content-Type": content_type} if content_type else {})
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        url = self._settings.server + path
        try:
            async with self.http.request(
                method, url, params=query, data=data, headers=headers, timeout=timeout
            ) as answer:
                content = await answer.read()
                if answer.status >= 400:
                    text = content.decode(errors="replace")
                    raise api_error(answer.status, text, answer.headers, what=f"{method} {path}")
                return content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{method} {url}: {type(error).__name__}: {error}") from error


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    pairs = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in pairs.items() if value}
