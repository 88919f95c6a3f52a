"""What a scrape says of groups in the admission queue."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.parsed import ParsedGroup
from swerl_operator.sandboxes.store import GroupRecord, GroupStore


@pytest.fixture
def store() -> GroupStore:
    return GroupStore()


@pytest.fixture
def value(store: GroupStore) -> Callable[..., float | None]:
    """A sample of the next scrape."""
    registry = CollectorRegistry()
    SandboxMetrics(registry, store)
    return lambda name, **labels: registry.get_sample_value(f"swerl_sandbox_{name}", labels)


def declared(store: GroupStore, group: Callable[..., ParsedGroup], name: str, *, seconds_ago: float) -> GroupRecord:
    record = store.put_group(group(name, created=time.time() - seconds_ago))
    assert record is not None
    return record


def test_groups_wait_until_they_are_admitted(
    store: GroupStore, group: Callable[..., ParsedGroup], value: Callable[..., float | None]
) -> None:
    first = declared(store, group, "g", seconds_ago=90)
    declared(store, group, "h", seconds_ago=30)
    assert value("groups", state="waiting") == 2
    assert value("oldest_wait_seconds") == pytest.approx(90, abs=5)
    first.state.admitted = True
    assert (value("groups", state="waiting"), value("groups", state="admitted")) == (1, 1)
    assert value("oldest_wait_seconds") == pytest.approx(30, abs=5)


def test_ended_groups_neither_wait_nor_count(
    store: GroupStore, group: Callable[..., ParsedGroup], value: Callable[..., float | None]
) -> None:
    declared(store, group, "g", seconds_ago=90).state.finished_at = time.time()
    assert (value("groups", state="waiting"), value("groups", state="admitted")) == (0, 0)
    assert value("oldest_wait_seconds") == 0


def test_counters_are_there_before_they_count(value: Callable[..., float | None]) -> None:
    assert value("groups_ended_total", reason="LeaseExpired") == 0
    assert value("isolation_checks_total", outcome="reachable") == 0
    assert value("api_writes_total", verb="patch_status") == 0
