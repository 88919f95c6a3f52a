"""The window follows the nodes' pace and nobody holds it for ever."""

from __future__ import annotations

import pytest
from swerl_operator.sandboxes.pacing import ASIDE, Wave


@pytest.fixture
def wave() -> Wave:
    return Wave(floor=4, limit=64, slow_start=4.0)


def test_places_go_to_the_first_in_line(wave: Wave) -> None:
    wave.join("a")
    wave.join("b")
    assert (wave.places("a", 0.0), wave.places("b", 0.0)) == (4, 0)
    wave.started("a-0", 0.0)
    assert wave.places("a", 0.0) == 3
    assert wave.leave("a", 0.0) == "b"
    assert wave.places("b", 0.0) == 3
    assert wave.leave("not in line", 0.0) is None


def test_a_ready_pod_frees_its_place(wave: Wave) -> None:
    wave.join("a")
    for i in range(4):
        wave.started(f"a-{i}", 0.0)
    assert wave.places("a", 0.5) == 0
    assert wave.ready("a-0", 0.5) == 0.5
    assert wave.places("a", 0.5) >= 1
    assert wave.ready("a-0", 0.6) is None


def test_a_slow_pod_stops_nobody(wave: Wave) -> None:
    wave.join("a")
    for i in range(4):
        wave.started(f"a-{i}", float(i))
    assert wave.next_place("a", 3.5) == pytest.approx(0.5)
    assert wave.places("a", 4.0) == 1
    assert wave.places("a", 7.0) == 4


def test_who_is_refused_lets_others_pass_until_its_next_try(wave: Wave) -> None:
    for group in "abc":
        wave.join(group)
    assert wave.step_aside("a", 2.0, 0.0) == "b"
    assert (wave.places("a", 1.0), wave.places("b", 1.0)) == (0, 4)
    assert wave.leave("b", 1.0) == "c"
    assert (wave.places("a", 2.0), wave.places("c", 2.0)) == (4, 0)  # it keeps its place in the line
    assert wave.leave("a", 2.0) == "c"


def test_those_that_let_others_pass_are_few(wave: Wave) -> None:
    groups = [f"g{number}" for number in range(ASIDE + 2)]
    for group in groups:
        wave.join(group)
    for group in groups[:ASIDE]:
        wave.step_aside(group, 2.0, 0.0)
    stays = groups[ASIDE]
    assert wave.step_aside(stays, 2.0, 0.0) == stays


def run(wave: Wave, total: int, rate: float, best: float) -> float:
    """Seconds until `total` Pods are ready on nodes that start `rate` a second, `best` seconds each at least."""
    wave.join("g")
    now, made, free_at = 0.0, 0, 0.0
    due: list[tuple[float, str]] = []
    while made < total or due:
        for _ in range(min(wave.places("g", now), total - made)):
            free_at = max(free_at, now) + 1 / rate
            due.append((max(now + best, free_at), f"p{made}"))
            wave.started(f"p{made}", now)
            made += 1
        due.sort()
        now = due[0][0]
        wave.ready(due.pop(0)[1], now)
    return now


def test_a_small_node_gets_small_waves(wave: Wave) -> None:
    run(wave, 128, rate=4.0, best=0.5)
    assert wave.window <= 8


def test_a_large_cluster_is_not_held_back(wave: Wave) -> None:
    took = run(wave, 2000, rate=100.0, best=1.0)
    assert wave.window == wave.limit
    assert took < 2000 / 64 + 10


def test_differences_that_nobody_feels_do_not_hold_back(wave: Wave) -> None:
    wave.join("g")
    for number, took in enumerate([0.05, *[1.0] * 40]):
        wave.started(f"p{number}", 0.0)
        wave.ready(f"p{number}", took)
    assert wave.window > 40
