"""The operator's Kubernetes client: plain dictionaries over one aiohttp session.

Guarantees: credentials are those kopf uses (service account, else kubeconfig), and the service account's token is read
again before it expires; every request has a timeout, and a watch that falls silent is cut; a refusal is an ApiError
that names the request, and what may pass by itself is Unavailable. A request that the server turns away with a time to
come back is sent again then (see swerl_api.retry_after).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import aiohttp
import kopf
from swerl_api.retry_after import next_wait, told_to_wait

from .errors import BY_STATUS, ApiError, Conflict, NotFound, OperatorError, Unavailable
from .metrics import Metrics

Object = dict[str, Any]
logger = logging.getLogger(__name__)

TOKEN_REFRESH_SECONDS = 60.0  # projected tokens are renewed by the kubelet long before they expire
REQUEST_TIMEOUT_SECONDS = 15.0
CONNECTIONS = 64  # parallel requests of the whole operator, watches not counted
WATCH_SECONDS = 300  # after which the server is asked to end a watch
SILENCE_SECONDS = 90.0  # a living watch has a bookmark about every minute
EXEC_SECONDS = 30.0
EXEC_PROTOCOLS = ("v4.channel.k8s.io", "v5.channel.k8s.io")
EXEC_STDOUT = b"\x01"  # the channel, first byte of its frames
LONGEST_LINE = 1 << 21  # bytes; an object has at most 1.5 MiB
NO_HEADERS: Mapping[str, str] = {}


def login() -> kopf.ConnectionInfo:
    """Connection of the surrounding Pod, else of $KUBECONFIG or ~/.kube/config; raises OperatorError without either."""
    options: dict[str, Any] = {"logger": logger, "settings": kopf.OperatorSettings()}
    connection = kopf.login_with_service_account(**options) or kopf.login_with_kubeconfig(**options)
    if connection is None:
        raise OperatorError("no Kubernetes credentials: run inside a Pod with a service account, or set KUBECONFIG")
    return connection


def path(api_version: str, resource: str, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
    """URL path, e.g. path("apps/v1", "deployments", "ns", "x", "status")."""
    root = "/api/" if "/" not in api_version else "/apis/"
    parts = [f"namespaces/{namespace}" if namespace else "", resource, name or "", sub]
    return root + "/".join([api_version, *filter(None, parts)])


class Kube:
    """Requests by (apiVersion, resource, namespace, name). Use as an async context manager."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._connection: kopf.ConnectionInfo | None = None
        self._login_time = 0.0

    async def __aenter__(self) -> Kube:
        self._connection = login()
        self._login_time = time.monotonic()
        tls = self._connection.as_ssl_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS),
        )
        self._watches = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT_SECONDS, sock_read=SILENCE_SECONDS),
            read_bufsize=LONGEST_LINE,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._session, self._watches):
            if session is not None:
                await session.close()

    @property
    def server(self) -> str:
        """URL of the API server."""
        assert self._connection is not None, "use `async with Kube(...)`"
        return str(self._connection.server).rstrip("/")

    async def get(self, api_version: str, resource: str, namespace: str | None, name: str) -> Object:
        """The object; raises NotFound."""
        return await self.request("GET", path(api_version, resource, namespace, name))

    async def find(self, api_version: str, resource: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when it (or its kind) does not exist."""
        try:
            return await self.get(api_version, resource, namespace, name)
        except NotFound:
            return None

    async def list(
        self, api_version: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """Every object that matches the label and field selectors."""
        query = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": "0"}
        answer = await self.request("GET", path(api_version, resource, namespace), query=query)
        return list(answer.get("items") or [])

    async def create(self, resource: str, body: Object) -> Object:
        """The created object; raises Conflict when the name is taken."""
        namespace = body["metadata"].get("namespace")
        return await self.request("POST", path(body["apiVersion"], resource, namespace), body=body)

    async def ensure(self, resource: str, body: Object) -> None:
        """Create it unless an earlier call did, for objects whose name says what they are."""
        try:
            await self.create(resource, body)
        except Conflict:
            return

    async def patch(
        self, api_version: str, resource: str, namespace: str | None, name: str, body: Object, *, sub: str = ""
    ) -> Object:
        """Merge patch of the object, or of its subresource `sub`."""
        url = path(api_version, resource, namespace, name, sub)
        return await self.request("PATCH", url, body=body, content_type="application/merge-patch+json")

    async def replace(self, resource: str, body: Object) -> Object:
        """PUT; raises Conflict when metadata.resourceVersion is not the current one."""
        metadata = body["metadata"]
        url = path(body["apiVersion"], resource, metadata.get("namespace"), metadata["name"])
        return await self.request("PUT", url, body=body)

    async def delete(
        self,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        grace: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Delete it; False when it was gone already. Raises Conflict where it has not the `uid` or `version` given."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        conditions = {"uid": uid, "resourceVersion": version}
        body["preconditions"] = {name: value for name, value in conditions.items() if value is not None}
        try:
            await self.request("DELETE", path(api_version, resource, namespace, name), body=body)
        except NotFound:
            return False
        return True

    async def delete_all(self, api_version: str, resource: str, namespace: str, *, labels: str) -> None:
        """Delete every object that matches, in the background."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        await self.request("DELETE", path(api_version, resource, namespace), body=body, query={"labelSelector": labels})

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """The decoded answer, once the server no longer asks to come back later."""
        waited = 0.0
        while True:
            try:
                return await self._send(method, url, body=body, query=query, content_type=content_type)
            except Unavailable as error:
                pause = next_wait(error.retry_after, waited)
                if pause is None:
                    raise
            await asyncio.sleep(pause)
            waited += pause

    async def _send(
        self, method: str, url: str, *, body: Object | None, query: Mapping[str, str] | None, content_type: str
    ) -> Object:
        assert self._session is not None and self._connection is not None, "use `async with Kube(...)`"
        headers = {"Content-Type": content_type, **self._credentials().as_http_headers()}
        data = None if body is None else json.dumps(body).encode()
        params = {key: value for key, value in (query or {}).items() if value}
        started = time.monotonic()
        try:
            async with self._session.request(
                method, self.server + url, data=data, params=params, headers=headers
            ) as reply:
                text = await reply.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"{method} {url}: API server not reachable: {error!r}") from error
        finally:
            self._metrics.api_seconds.labels(verb=method).observe(time.monotonic() - started)
        self._metrics.api_requests.labels(verb=method, code=f"{reply.status // 100}xx").inc()
        return _decoded(f"{method} {url}", reply.status, text, reply.headers)

    async def watch(
        self, url: str, version: int, *, labels: str = "", fields: str = "", seconds: int = WATCH_SECONDS
    ) -> AsyncIterator[tuple[str, Object]]:
        """Type and object of each event after `version`, bookmarks included, until the server ends the stream.

        Raises Gone when the server no longer knows that version.
        """
        assert self._watches is not None, "use `async with Kube(...)`"
        query = {
            "watch": "1",
            "resourceVersion": str(version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        request, headers = f"WATCH {url}", self._credentials().as_http_headers()
        try:
            async with self._watches.get(self.server + url, params=query, headers=headers) as reply:
                if reply.status >= 400:
                    _decoded(request, reply.status, await reply.text(), reply.headers)
                async for line in reply.content:
                    yield _event(request, line)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(f"{request}: the stream broke: {error!r}") from error

    async def output(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> bytes:
        """What a command in a container prints to its standard output; raises Unavailable after EXEC_SECONDS.

        As far as it got: nothing here tells whether the stream ended because the command did.
        """
        assert self._watches is not None, "use `async with Kube(...)`"
        url, headers = path("v1", "pods", namespace, pod, "exec"), self._credentials().as_http_headers()
        query = [("command", word) for word in command] + [("stdout", "1"), ("container", container)]
        found = bytearray()
        try:
            async with (
                asyncio.timeout(EXEC_SECONDS),
                self._watches.ws_connect(
                    self.server + url, params=query, headers=headers, protocols=EXEC_PROTOCOLS, max_msg_size=0
                ) as socket,
            ):
                async for message in socket:
                    frame: bytes = message.data
                    if frame[:1] == EXEC_STDOUT:
                        found += frame[1:]
        except aiohttp.WSServerHandshakeError as error:
            _decoded(f"EXEC {url}", error.status, error.message, error.headers or NO_HEADERS)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"EXEC {url}: {error!r}") from error
        return bytes(found)

    def _credentials(self) -> kopf.ConnectionInfo:
        assert self._connection is not None
        if time.monotonic() - self._login_time > TOKEN_REFRESH_SECONDS:
            self._connection, self._login_time = login(), time.monotonic()
        return self._connection


def _event(request: str, line: bytes) -> tuple[str, Object]:
    event = json.loads(line)
    body: Object = event["object"]
    if event["type"] == "ERROR":
        _decoded(request, int(body.get("code") or 500), json.dumps(body))
    return str(event["type"]), body


def _decoded(request: str, status: int, text: str, headers: Mapping[str, str] = NO_HEADERS) -> Object:
    try:
        answer: Object = json.loads(text) if text else {}
    except json.JSONDecodeError:
        answer = {"message": text[:500]}
    if status < 400:
        return answer
    message = str(answer.get("message") or text[:500])
    if status == 429 or status >= 500:
        raise Unavailable(f"{request}: {status}: {message}", told_to_wait(status, headers))
    raise BY_STATUS.get(status, ApiError)(request, status, str(answer.get("reason") or "Error"), message)
