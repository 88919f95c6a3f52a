"""How long the images of sandboxes were pulled, as the kubelets' Events say; the Pods themselves do not tell.

Guarantees: one watch for each namespace that is served, or one for all, and no request for a Pod or a group: the API
server has no index of Events, so that each list of them reads all of a namespace. Nothing waits for an Event, and a
pull that was not heard of is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

from ..errors import Forbidden, Gone, OperatorError, pause_after
from ..quantity import parse_duration
from .api import Cluster
from .store import Store

logger = logging.getLogger(__name__)

REOPEN = 0.1  # seconds until a watch that ended is opened again
BROKEN = 5.0  # seconds until one that failed is
FORBIDDEN = 600.0  # seconds until one that is not allowed is tried again
DURATION = r"((?:[0-9.]+(?:h|ms|µs|ns|m|s))+)"
SUCCESS = re.compile(rf'Successfully pulled image "[^"]*" in {DURATION}(?: \({DURATION} including waiting\))?')


class Pulls:
    """Listens as long as it runs; `namespaces` are those served, empty for all."""

    def __init__(self, cluster: Cluster, store: Store, namespaces: Sequence[str]) -> None:
        self._cluster = cluster
        self._store = store
        self._namespaces: Sequence[str | None] = namespaces or (None,)

    async def run(self) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for namespace in self._namespaces:
                tasks.create_task(self._listen(namespace), name=f"pulls in {namespace or 'all namespaces'}")

    async def _listen(self, namespace: str | None) -> None:
        version: int | None = None
        while True:
            pause = REOPEN
            try:
                if version is None:
                    version = await self._cluster.events_version(namespace)
                async for kind, body in self._cluster.pulls(namespace, version):
                    version = int(body["metadata"]["resourceVersion"])
                    took = pull_seconds(str(body.get("message") or "")) if kind == "ADDED" else None
                    if took is not None:
                        self._store.heard_pull(str(body["involvedObject"].get("uid")), took)
            except Gone:
                version = None
            except Forbidden as error:
                logger.warning("how long images are pulled stays unknown: %s", error)
                pause = FORBIDDEN
            except OperatorError as error:
                logger.warning("Events of image pulls cannot be watched, trying again: %s", error)
                pause = pause_after(error, BROKEN)
            await asyncio.sleep(pause)


def pull_seconds(message: str) -> float | None:
    """Seconds from the kubelet's words on an image that is there, the wait for other pulls included; else None."""
    if "already present on machine" in message:
        return 0.0
    found = SUCCESS.match(message)
    return parse_duration(found[2] or found[1]) if found is not None else None
