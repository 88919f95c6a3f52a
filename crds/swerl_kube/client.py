"""The Kubernetes API by (apiVersion, resource, namespace, name): JSON objects go in and come out as plain dicts.

What a call guarantees about time, repetition and errors stands in transport.py.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from . import config
from .errors import NotFound
from .exec import HANDSHAKE_RETRIES, ExecChannel, exec_output, open_exec
from .paths import resource_path
from .transport import ClientOptions, Json, Observer, Transport
from .watch import SERVER_TIMEOUT, Event, stream_query, watch


class KubeClient(Transport):
    """The verbs of the API; use with `async with`, inside one event loop."""

    @classmethod
    def from_environment(
        cls,
        kubeconfig: str | config.KubeContext | None = None,
        options: ClientOptions | None = None,
        *,
        observer: Observer | None = None,
    ) -> Self:
        """From `kubeconfig`, $KUBECONFIG, the Pod's service account or ~/.kube/config; raises ConfigError."""
        return cls(config.load(kubeconfig), options, observer=observer)

    async def get(self, api: str, resource: str, namespace: str | None, name: str) -> Json:
        """The object; raises NotFound."""
        return await self._json(resource_path(api, resource, namespace, name))

    async def find(self, api: str, resource: str, namespace: str | None, name: str) -> Json | None:
        """The object, or None when it (or its kind) does not exist."""
        try:
            return await self.get(api, resource, namespace, name)
        except NotFound:
            return None

    async def list(
        self, api: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[Json]:
        """Every object that matches the label and field selectors."""
        query = _selectors(labels, fields) | ({"resourceVersion": "0"} if self.options.cached_lists else {})
        answer = await self._json(resource_path(api, resource, namespace), query)
        return list(answer.get("items") or [])

    async def create(self, resource: str, body: Mapping[str, Any], *, namespace: str | None = None) -> Json:
        """Create in `namespace`, else in the one that `body` names; raises Conflict when the name is taken."""
        place = namespace or body["metadata"].get("namespace")
        return await self.request("POST", resource_path(body["apiVersion"], resource, place), body=body)

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
        return await self.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def replace(self, resource: str, body: Mapping[str, Any]) -> Json:
        """PUT; raises Conflict when metadata.resourceVersion is not the current one."""
        metadata = body["metadata"]
        path = resource_path(body["apiVersion"], resource, metadata.get("namespace"), metadata["name"])
        return await self.request("PUT", path, body=body)

    async def delete(
        self,
        api: str,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Delete; False when there was none. Raises Conflict where its uid or resourceVersion is not the one given."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        preconditions = {"uid": uid, "resourceVersion": version}
        options["preconditions"] = {key: value for key, value in preconditions.items() if value is not None}
        try:
            await self.request("DELETE", resource_path(api, resource, namespace, name), body=options)
        except NotFound:
            return False
        return True

    async def delete_all(self, api: str, resource: str, namespace: str, *, labels: str) -> None:
        """Delete every object that matches, in the background."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        query = {"labelSelector": labels}
        await self.request("DELETE", resource_path(api, resource, namespace), body=options, query=query)

    def watch(
        self, api: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Every object now and every change from now on; never ends by itself (see watch.py)."""
        return watch(self, resource_path(api, resource, namespace), _selectors(labels, fields))

    async def stream(
        self, path: str, version: int, *, labels: str = "", fields: str = "", seconds: int = SERVER_TIMEOUT
    ) -> AsyncIterator[tuple[str, Json]]:
        """Type and object of each event after `version`, bookmarks included, until the server ends this one stream.

        Raises Expired when the server no longer knows that version.
        """
        async for event in self.events(path, stream_query(str(version), _selectors(labels, fields), seconds)):
            yield str(event["type"]), event["object"]

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
        return await self.read(path, {key: str(value) for key, value in query.items() if value is not None})

    def follow_logs(self, namespace: str, pod: str, *, container: str, silence: float) -> AsyncIterator[bytes]:
        """The container's log from its start, as it grows, until the container ends (see `chunks`)."""
        path = resource_path("v1", "pods", namespace, pod, "log")
        return self.chunks(path, {"container": container, "follow": "true"}, silence=silence)

    async def exec_stream(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str | None = None,
        stdin: bool = True,
        tty: bool = False,
        retries: int = HANDSHAKE_RETRIES,
    ) -> ExecChannel:
        """Start `command` in a running container; a terminal (`tty`) has no separate standard error.

        What may pass by itself is retried `retries` times, with growing pauses.
        Raises HandshakeError, NotFound or Unreachable (see exec.py).
        """
        return await open_exec(
            self, namespace, pod, command, container=container, stdin=stdin, tty=tty, retries=retries
        )

    async def exec_output(
        self, namespace: str, pod: str, command: Sequence[str], *, container: str, seconds: float
    ) -> bytes:
        """Standard output of `command`, as far as it came; raises as `exec_stream`, Unreachable after `seconds`."""
        return await exec_output(self, namespace, pod, command, container=container, seconds=seconds)

    async def _json(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        answer: Json = json.loads(await self.read(path, query))
        return answer


def _selectors(labels: str, fields: str) -> dict[str, str]:
    pairs = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in pairs.items() if value}
