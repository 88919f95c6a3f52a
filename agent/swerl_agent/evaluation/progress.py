"""How far a process of a SweEval is, told in a ConfigMap of its own, from which the operator makes the status.

Guarantees: at most one write per 10 s and none when nothing changed; an API server that cannot be reached delays the
figures, never the attempts.
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

from .records import Records

PERIOD_SECONDS = 10.0
logger = logging.getLogger(__name__)


class ProgressReport:
    """The ConfigMap `name` in `namespace`, with `metadata` (labels, owner references)."""

    def __init__(self, client: KubeClient, namespace: str, name: str, metadata: Mapping[str, Any]) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._metadata = {**metadata, "name": name, "namespace": namespace}
        self._told: EvalProgress | None = None

    async def tell(self, progress: EvalProgress) -> None:
        """Write it unless it is what was told last. Raises KubeError."""
        if progress == self._told:
            return
        text = json.dumps(progress.model_dump(mode="json", by_alias=True, exclude_none=True))
        data = {"data": {PROGRESS_KEY: text}}
        try:
            await self._client.patch("v1", "configmaps", self._namespace, self._name, data)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, **data}
            await self._client.create("configmaps", body, namespace=self._namespace)
        self._told = progress

    async def follow(self, look: Callable[[], EvalProgress]) -> None:
        """Tell what `look` sees, for ever."""
        while True:
            try:
                await self.tell(look())
            except KubeError as error:
                logger.warning("progress not told: %s", error)
            await asyncio.sleep(PERIOD_SECONDS)


def progress_of(records: Records, tasks: Collection[str], total: int) -> EvalProgress:
    """What the records of `tasks` (ids) say, of `total` attempts of the whole evaluation."""
    mine = [record for record in records.all if record.instance_id in tasks]
    valid = [record for record in mine if record.valid]
    return EvalProgress(
        total=total,
        done=len(valid),
        resolved=sum(record.resolved for record in valid),
        errors=len(mine) - len(valid),
    )
