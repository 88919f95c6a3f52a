"""CPU-seconds from samples: each sample stands for the time since the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from swerl_api.quantity import parse_duration
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.parsed import ParsedGroup
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.store import GroupStore
from swerl_operator.sandboxes.usage import CpuMeter, UsageSampler
from swerl_operator.times import format_time
from swerl_operator.workqueue import ObjectKey

NOW = 1_000_000.0


def sample(pod: str, at: float, *cpu: str, span: str = "15s") -> dict[str, Any]:
    containers = [{"name": f"c{i}", "usage": {"cpu": each, "memory": "1Mi"}} for i, each in enumerate(cpu)]
    meta = {"namespace": "ns", "name": pod}
    return {"metadata": meta, "timestamp": format_time(NOW + at), "window": span, "containers": containers}


@pytest.mark.parametrize(
    ("text", "length"), [("15.1s", 15.1), ("1m0s", 60.0), ("500ms", 0.5), ("", 0.0), ("12µs", 0.0)]
)
def test_durations_are_parsed(text: str, length: float) -> None:
    assert parse_duration(text) == pytest.approx(length)


def test_sample_covers_the_time_since_the_one_before() -> None:
    meter = CpuMeter()
    assert meter.read([sample("a", 0, "500m", "500m")]) == {("ns", "a"): 15.0}
    assert meter.read([sample("a", 60, "100m")]) == {("ns", "a"): pytest.approx(6.0)}
    assert meter.read([sample("a", 60, "100m")]) == {("ns", "a"): 0.0}, "a repeated sample counts once"


def test_pods_without_a_sample_are_dropped() -> None:
    meter = CpuMeter()
    meter.read([sample("a", 0, "1"), sample("b", 0, "1")])
    meter.read([sample("b", 60, "1")])
    assert set(meter.sampled_at) == {("ns", "b")}


class FakeMetricsApi:
    """A metrics API whose figures the test sets."""

    def __init__(self) -> None:
        self.samples: list[dict[str, Any]] = []

    async def usage(self, namespace: str | None) -> list[dict[str, Any]]:
        return self.samples


async def test_group_is_reconciled_until_its_status_has_cpu_seconds(group: Callable[..., ParsedGroup]) -> None:
    store, api, enqueued = GroupStore(), FakeMetricsApi(), list[ObjectKey]()
    metrics = SandboxMetrics(CollectorRegistry(), store)
    usage = UsageSampler(api, store, metrics, SandboxSettings(), [], enqueued.append)  # type: ignore[arg-type]
    record = store.put_group(group())
    assert record is not None
    api.samples = [sample("swesb-g-0", 0, "0")]
    await usage.sample()
    assert not enqueued, "there is nothing to write"
    for at in (60, 120):
        api.samples = [sample("swesb-g-0", at, "500m")]
        await usage.sample()
    assert (enqueued, record.cpu_seconds) == ([("ns", "g")] * 2, 60.0)
    store.put_group(replace(group(), version=2, status={"cpuSeconds": 60.0}))
    api.samples = [sample("swesb-g-0", 180, "500m")]
    await usage.sample()
    assert len(enqueued) == 2
