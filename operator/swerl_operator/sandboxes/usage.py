"""CPU-seconds of groups, summed up from the cluster's metrics API.

Guarantees: one read per period for all sandboxes, and few reads where there is no such API. The sum is written with the
next status of the group, or once on its own (see `status`), and into one counter for all. A sample covers the time
since the previous one; the first covers the API's own window. A Pod with a shorter life counts as 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swerl_api.quantity import parse_duration, parse_quantity
from swerl_kube import KubeError

from ..times import parse_time
from ..workqueue import ObjectKey
from .api import SandboxApi
from .metrics import SandboxMetrics
from .settings import SandboxSettings
from .store import GroupStore

logger = logging.getLogger(__name__)


@dataclass
class CpuMeter:
    """When each Pod, by namespace and name, was last sampled (epoch seconds)."""

    sampled_at: dict[ObjectKey, float] = field(default_factory=dict)

    def read(self, samples: Iterable[Mapping[str, Any]]) -> dict[ObjectKey, float]:
        """CPU-seconds used since the sample before, by Pod; Pods without a sample are dropped."""
        used: dict[ObjectKey, float] = {}
        present: dict[ObjectKey, float] = {}
        for sample in samples:
            pod = (str(sample["metadata"]["namespace"]), str(sample["metadata"]["name"]))
            sampled = parse_time(sample.get("timestamp"))
            if sampled is None:
                continue
            before = self.sampled_at.get(pod, sampled - parse_duration(str(sample.get("window") or "")))
            cores = ((c.get("usage") or {}).get("cpu", "0") for c in sample.get("containers") or ())
            used[pod] = float(sum(map(parse_quantity, cores))) * max(0.0, sampled - before)
            present[pod] = max(sampled, before)
        self.sampled_at = present
        return used


class UsageSampler:
    """Samples while it runs; `namespaces` are those served, empty for all; `enqueue` has a group reconciled."""

    def __init__(
        self,
        api: SandboxApi,
        store: GroupStore,
        metrics: SandboxMetrics,
        settings: SandboxSettings,
        namespaces: Sequence[str],
        enqueue: Callable[[ObjectKey], None],
    ) -> None:
        self._enqueue = enqueue
        self._api = api
        self._store = store
        self._metrics = metrics
        self._settings = settings
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._meters = {namespace: CpuMeter() for namespace in self._namespaces}

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            try:
                available = await self.sample()
            except KubeError as error:
                logger.warning("CPU usage of sandboxes cannot be read, trying again: %s", error)
                available = True
            await asyncio.sleep(self._settings.usage_period if available else self._settings.usage_recheck)

    async def sample(self) -> bool:
        """Add one sample; whether the cluster has a metrics API. Raises KubeError."""
        if not self._store.namespaces():
            return True
        available = False
        for namespace, meter in self._meters.items():
            samples = await self._api.usage(namespace)
            available = available or samples is not None
            for pod, used in meter.read(samples or ()).items():
                self._add(pod, used)
        return available

    def _add(self, pod: ObjectKey, used: float) -> None:
        record = self._store.owner_of(*pod)
        if record is not None:
            record.cpu_seconds += used
            self._metrics.cpu_seconds.inc(used)
            if record.group is not None and record.cpu_seconds and "cpuSeconds" not in record.group.status:
                self._enqueue(record.group.key)
