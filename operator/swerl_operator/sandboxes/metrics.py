"""Metrics of sandboxes; labels take values from small fixed sets only."""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from swerl_api.conditions import SandboxReason

from .parsed import PodStage
from .store import GroupRecord, GroupStore

WRITE_VERBS = ("create_pod", "delete_pod", "patch_status", "delete_group")
END_REASONS = (SandboxReason.COMPLETED, SandboxReason.LEASE_EXPIRED, SandboxReason.LIFETIME_EXCEEDED)
CHECK_OUTCOMES = ("passed", "reachable", "failed")
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
            f"Writes of the operator for sandboxes, by verb {'|'.join(WRITE_VERBS)}.",
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
        self.isolation_checks = Counter(
            "swerl_sandbox_isolation_checks",
            f"Isolation checks of groups by outcome {'|'.join(CHECK_OUTCOMES)}; failed could not be made.",
            ["outcome"],
            registry=registry,
        )
        _begin_at_zero(self.writes, WRITE_VERBS)
        _begin_at_zero(self.groups_ended, END_REASONS)
        _begin_at_zero(self.isolation_checks, CHECK_OUTCOMES)
        registry.register(_SandboxCollector(store))


def _begin_at_zero(counter: Counter, values: Iterable[str]) -> None:
    """Export the counter with each value of its label: the first increase of a series that was absent is no rate."""
    for value in values:
        counter.labels(value)


class _SandboxCollector(Collector):
    """Counts at each scrape, so nothing is updated in between."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Sandboxes by phase (`pending` are requested but not created), groups by state, the longest wait."""
        records = list(self._store.records())
        yield _family("swerl_sandboxes", "Sandboxes by phase.", "phase", _sandboxes(records))
        waiting = [record.existing_group for record in records if _lives(record) and not _admitted(record)]
        groups = {"waiting": len(waiting), "admitted": sum(map(_lives, records)) - len(waiting)}
        yield _family("swerl_sandbox_groups", "Groups that have not ended, by state waiting|admitted.", "state", groups)
        oldest = time.time() - min((group.created for group in waiting), default=time.time())
        text = "Seconds since the creation of the oldest group in the admission queue; 0 when it is empty."
        yield GaugeMetricFamily("swerl_sandbox_oldest_wait_seconds", text, value=max(0.0, oldest))


def _family(name: str, text: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _sandboxes(records: Iterable[GroupRecord]) -> Counts[str]:
    counts: Counts[str] = Counts({state.value: 0 for state in PodStage} | {"pending": 0})
    for record in records:
        if record.group is not None:
            counts["pending"] += max(0, record.group.spec.replicas - record.created)
        for pod in list(record.pods.values()):
            counts[pod.stage.value] += 1
    return counts


def _lives(record: GroupRecord) -> bool:
    group = record.group
    return group is not None and not group.deleting and record.state.finished_at is None


def _admitted(record: GroupRecord) -> bool:
    return record.created > 0 or record.state.admitted
