"""The window adapts to the nodes, and no Pod occupies a slot forever."""

from __future__ import annotations

import pytest
from swerl_operator.sandboxes.start_window import MAX_DEFERRED, StartWindow


@pytest.fixture
def window() -> StartWindow:
    return StartWindow(minimum=4, maximum=64, slot_timeout=4.0)


def test_slots_go_to_the_first_group(window: StartWindow) -> None:
    window.add("a")
    window.add("b")
    assert (window.slots("a", 0.0), window.slots("b", 0.0)) == (4, 0)
    window.started("a-0", 0.0)
    assert window.slots("a", 0.0) == 3
    assert window.remove("a", 0.0) == "b"
    assert window.slots("b", 0.0) == 3
    assert window.remove("not in line", 0.0) is None


def test_ready_pod_frees_its_slot(window: StartWindow) -> None:
    window.add("a")
    for i in range(4):
        window.started(f"a-{i}", 0.0)
    assert window.slots("a", 0.5) == 0
    assert window.ready("a-0", 0.5) == 0.5
    assert window.slots("a", 0.5) >= 1
    assert window.ready("a-0", 0.6) is None


def test_slow_pod_frees_its_slot_after_a_timeout(window: StartWindow) -> None:
    window.add("a")
    for i in range(4):
        window.started(f"a-{i}", float(i))
    assert window.next_slot("a", 3.5) == pytest.approx(0.5)
    assert window.slots("a", 4.0) == 1
    assert window.slots("a", 7.0) == 4


def test_refused_group_is_deferred_until_its_next_retry(window: StartWindow) -> None:
    for group in "abc":
        window.add(group)
    assert window.defer("a", 2.0, 0.0) == "b"
    assert (window.slots("a", 1.0), window.slots("b", 1.0)) == (0, 4)
    assert window.remove("b", 1.0) == "c"
    assert (window.slots("a", 2.0), window.slots("c", 2.0)) == (4, 0)  # it keeps its place in the line
    assert window.remove("a", 2.0) == "c"


def test_number_of_deferred_groups_is_bounded(window: StartWindow) -> None:
    groups = [f"g{number}" for number in range(MAX_DEFERRED + 2)]
    for group in groups:
        window.add(group)
    for group in groups[:MAX_DEFERRED]:
        window.defer(group, 2.0, 0.0)
    last_group = groups[MAX_DEFERRED]
    assert window.defer(last_group, 2.0, 0.0) == last_group


def run(window: StartWindow, total: int, rate: float, best: float) -> float:
    """Seconds until `total` Pods are ready on nodes that start `rate` a second, `best` seconds each at least."""
    window.add("g")
    now, created, free_at = 0.0, 0, 0.0
    due: list[tuple[float, str]] = []
    while created < total or due:
        for _ in range(min(window.slots("g", now), total - created)):
            free_at = max(free_at, now) + 1 / rate
            due.append((max(now + best, free_at), f"p{created}"))
            window.started(f"p{created}", now)
            created += 1
        due.sort()
        now = due[0][0]
        window.ready(due.pop(0)[1], now)
    return now


def test_small_node_gets_a_small_window(window: StartWindow) -> None:
    run(window, 128, rate=4.0, best=0.5)
    assert window.window <= 8


def test_large_cluster_gets_the_largest_window(window: StartWindow) -> None:
    took = run(window, 2000, rate=100.0, best=1.0)
    assert window.window == window.maximum
    assert took < 2000 / 64 + 10


def test_differences_between_fast_starts_do_not_shrink_the_window(window: StartWindow) -> None:
    window.add("g")
    for number, took in enumerate([0.05, *[1.0] * 40]):
        window.started(f"p{number}", 0.0)
        window.ready(f"p{number}", took)
    assert window.window > 40
