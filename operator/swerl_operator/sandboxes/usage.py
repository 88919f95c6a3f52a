"""CPU-seconds of groups, summed up from the cluster's metrics API.

Guarantees: one read per period for all sandboxes, and hardly any where there is no such API; the sum travels with the
next news of the group, or once by itself (see `status`), and into one counter for all. A sample stands for the time
since the one before it, the first for the API's own window, so a Pod that lived shorter counts as 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import OperatorError
from ..quantity import parse_duration, parse_quantity
from .api import Cluster
from .metrics import SandboxMetrics
from .parsed import Key, seconds
from .settings import SandboxSettings
from .store import Store

logger = logging.getLogger(__name__)


@dataclass
class Meter:
    """When each Pod, by namespace and name, was last sampled (epoch seconds)."""

    seen: dict[Key, float] = field(default_factory=dict)

    def read(self, samples: Iterable[Mapping[str, Any]]) -> dict[Key, float]:
        """CPU-seconds used since the sample before, by Pod; Pods that are not sampled any more are forgotten."""
        used: dict[Key, float] = {}
        present: dict[Key, float] = {}
        for sample in samples:
            pod = (str(sample["metadata"]["namespace"]), str(sample["metadata"]["name"]))
            moment = seconds(sample.get("timestamp"))
            if moment is None:
                continue
            before = self.seen.get(pod, moment - parse_duration(str(sample.get("window") or "")))
            cores = ((c.get("usage") or {}).get("cpu", "0") for c in sample.get("containers") or ())
            used[pod] = float(sum(map(parse_quantity, cores))) * max(0.0, moment - before)
            present[pod] = max(moment, before)
        self.seen = present
        return used


class Usage:
    """Samples as long as it runs; `namespaces` are those served, empty for all; `look` has a group looked at."""

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        metrics: SandboxMetrics,
        settings: SandboxSettings,
        namespaces: Sequence[str],
        look: Callable[[Key], None],
    ) -> None:
        self._look = look
        self._cluster = cluster
        self._store = store
        self._metrics = metrics
        self._settings = settings
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._meters = {namespace: Meter() for namespace in self._namespaces}

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            try:
                there = await self.sample()
            except OperatorError as error:
                logger.warning("CPU usage of sandboxes cannot be read, trying again: %s", error)
                there = True
            await asyncio.sleep(self._settings.usage_period if there else self._settings.usage_absent)

    async def sample(self) -> bool:
        """Add one sample; whether there is a metrics API. Raises OperatorError."""
        if not self._store.namespaces():
            return True
        there = False
        for namespace, meter in self._meters.items():
            samples = await self._cluster.usage(namespace)
            there = there or samples is not None
            for pod, used in meter.read(samples or ()).items():
                self._add(pod, used)
        return there

    def _add(self, pod: Key, used: float) -> None:
        record = self._store.owner_of(*pod)
        if record is not None:
            record.cpu_seconds += used
            self._metrics.cpu_seconds.inc(used)
            if record.group is not None and record.cpu_seconds and "cpuSeconds" not in record.group.status:
                self._look(record.group.key)
