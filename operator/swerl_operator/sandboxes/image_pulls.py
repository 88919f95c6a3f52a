"""The duration of the sandboxes' image pulls, from the kubelets' Events; the Pods' status does not contain it.

Guarantees: one watch per served namespace, or one for all, and no request per Pod or group: the API server has no index
of Events, so each list of them reads a whole namespace. Nothing waits for an Event; a pull without Event is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

from swerl_api.quantity import parse_duration
from swerl_kube import Expired, Forbidden, KubeError, pause_after

from .api import SandboxApi
from .settings import SandboxSettings
from .store import GroupStore

logger = logging.getLogger(__name__)

FORBIDDEN_SECONDS = 600.0  # until a watch that is not allowed is retried
DURATION = r"((?:[0-9.]+(?:h|ms|µs|ns|m|s))+)"
SUCCESS = re.compile(rf'Successfully pulled image "[^"]*" in {DURATION}(?: \({DURATION} including waiting\))?')


class PullWatcher:
    """Records the pulls in `store`; `namespaces` are those served, empty for all."""

    def __init__(
        self, api: SandboxApi, store: GroupStore, settings: SandboxSettings, namespaces: Sequence[str]
    ) -> None:
        self._api = api
        self._store = store
        self._settings = settings
        self._namespaces: Sequence[str | None] = namespaces or (None,)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for namespace in self._namespaces:
                tasks.create_task(self._watch(namespace), name=f"pulls in {namespace or 'all namespaces'}")

    async def _watch(self, namespace: str | None) -> None:
        version: int | None = None
        while True:
            pause = self._settings.watch_reopen
            try:
                if version is None:
                    version = await self._api.events_version(namespace)
                async for kind, body in self._api.pull_events(namespace, version):
                    version = int(body["metadata"]["resourceVersion"])
                    pulled_in = pull_seconds(str(body.get("message") or "")) if kind == "ADDED" else None
                    if pulled_in is not None:
                        self._store.record_pull(str(body["involvedObject"].get("uid")), pulled_in)
            except Expired:
                version = None
            except Forbidden as error:
                logger.warning("the duration of image pulls stays unknown: %s", error)
                pause = FORBIDDEN_SECONDS
            except KubeError as error:
                logger.warning("Events of image pulls cannot be watched, trying again: %s", error)
                pause = pause_after(error, self._settings.events_retry)
            await asyncio.sleep(pause)


def pull_seconds(message: str) -> float | None:
    """Seconds from the kubelet's message about a present image, the wait for other pulls included; else None."""
    if "already present on machine" in message:
        return 0.0
    found = SUCCESS.match(message)
    return parse_duration(found[2] or found[1]) if found is not None else None
