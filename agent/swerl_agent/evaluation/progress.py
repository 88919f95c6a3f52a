"""Progress of one process of a SweEval, written to its own ConfigMap; the operator computes the status from it.

Guarantees: at most one write per 10 s, and none when nothing changed. An unreachable API server delays the report, not
the samples.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from swerl_api import EvalProgress
from swerl_api.names import PROGRESS_KEY
from swerl_kube import KubeClient, KubeError, NotFound

from .records import SampleRecords

PERIOD_SECONDS = 10.0
logger = logging.getLogger(__name__)


class ProgressReport:
    """The ConfigMap `name` in `namespace`, with `metadata` (labels, owner references)."""

    def __init__(self, client: KubeClient, namespace: str, name: str, metadata: Mapping[str, Any]) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._metadata = {**metadata, "name": name, "namespace": namespace}
        self._written: EvalProgress | None = None

    async def write(self, progress: EvalProgress) -> None:
        """Write it unless it equals the last report. Raises KubeError."""
        if progress == self._written:
            return
        text = json.dumps(progress.model_dump(mode="json", by_alias=True, exclude_none=True))
        data = {"data": {PROGRESS_KEY: text}}
        try:
            await self._client.patch("v1", "configmaps", self._namespace, self._name, data)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, **data}
            await self._client.create("configmaps", body, namespace=self._namespace)
        self._written = progress

    async def follow(self, read: Callable[[], EvalProgress]) -> None:
        """Write what `read` returns, forever."""
        while True:
            try:
                await self.write(read())
            except KubeError as error:
                logger.warning("progress not written: %s", error)
            await asyncio.sleep(PERIOD_SECONDS)


def progress_of(records: SampleRecords, tasks: Collection[str], total: int) -> EvalProgress:
    """The progress of `tasks` (ids) by their records; `total`: samples of the whole evaluation."""
    own_records = [record for record in records.all if record.instance_id in tasks]
    valid = [record for record in own_records if record.valid]
    return EvalProgress(
        total=total,
        done=len(valid),
        resolved=sum(record.resolved for record in valid),
        errors=len(own_records) - len(valid),
    )
