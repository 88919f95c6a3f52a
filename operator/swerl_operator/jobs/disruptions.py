"""Notices when the cluster takes a Ray Pod from its node.

An evicted Pod may be gone before its job is reconciled in turn. Guarantees: one watch per served namespace, or one for
all; a watch that is refused is opened again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from swerl_api.names import EVALUATION_LABEL, JOB_LABEL
from swerl_kube import KubeClient, KubeError, pause_after

from ..checks.pods import disrupted_pods
from ..ray.pods import NODE_TYPE_LABEL
from ..workqueue import ObjectKey

RAY_PODS = f"{JOB_LABEL},{NODE_TYPE_LABEL},!{EVALUATION_LABEL}"  # those of SweRLJobs
RETRY_SECONDS = 30.0  # until a refused watch is opened again

logger = logging.getLogger(__name__)


class DisruptionWatch:
    """Calls `disrupted` with namespace and SweRLJob of each Ray Pod that leaves its node. `namespaces`: () for all."""

    def __init__(self, api: KubeClient, namespaces: Sequence[str], disrupted: Callable[[ObjectKey], None]) -> None:
        self._api = api
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._disrupted = disrupted

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for namespace in self._namespaces:
                tasks.create_task(self._watch(namespace), name=f"Ray Pods in {namespace or 'all namespaces'}")

    async def _watch(self, namespace: str | None) -> None:
        while True:
            pause = RETRY_SECONDS
            try:
                async for event in self._api.watch("v1", "pods", namespace, labels=RAY_PODS):
                    if event.type != "DELETED" and disrupted_pods([event.object]):
                        metadata = event.object["metadata"]
                        self._disrupted((metadata["namespace"], metadata["labels"][JOB_LABEL]))
            except KubeError as error:
                logger.warning("Ray Pods cannot be watched, trying again: %s", error)
                pause = pause_after(error, RETRY_SECONDS)
            await asyncio.sleep(pause)
