"""Metrics of sandboxes; labels take values from small fixed sets only."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from .parsed import PodStage
from .store import GroupStore

START_BUCKETS = (0.25, 0.5, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 300, 600)  # seconds


class SandboxMetrics:
    """The collectors, registered in `registry`."""

    def __init__(self, registry: CollectorRegistry, store: GroupStore) -> None:
        self.start_seconds = Histogram(
            "swerl_sandbox_start_seconds",
            "Seconds from the creation of a sandbox Pod until it is ready, as observed by the operator.",
            buckets=START_BUCKETS,
            registry=registry,
        )
        self.writes = Counter(
            "swerl_sandbox_api_writes",
            "Writes of the operator for sandboxes, by verb create_pod|delete_pod|patch_status|delete_group.",
            ["verb"],
            registry=registry,
        )
        self.groups_ended = Counter(
            "swerl_sandbox_groups_ended", "Groups that ended, by reason.", ["reason"], registry=registry
        )
        self.cpu_seconds = Counter(
            "swerl_sandbox_cpu_seconds",
            "CPU-seconds used by sandboxes, summed up from samples of the metrics API.",
            registry=registry,
        )
        registry.register(_SandboxCollector(store))


class _SandboxCollector(Collector):
    """Counts at each scrape, so nothing is updated in between."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Sandboxes by phase: `pending` are requested but not created."""
        sandboxes = GaugeMetricFamily("swerl_sandboxes", "Sandboxes by phase.", labels=["phase"])
        for phase, number in self._count().items():
            sandboxes.add_metric([phase], number)
        yield sandboxes

    def _count(self) -> Counts[str]:
        counts: Counts[str] = Counts({state.value: 0 for state in PodStage} | {"pending": 0})
        for record in list(self._store.records()):
            if record.group is not None:
                counts["pending"] += max(0, record.group.spec.replicas - record.created)
            for pod in list(record.pods.values()):
                counts[pod.stage.value] += 1
        return counts
