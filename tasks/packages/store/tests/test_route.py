import pytest
from store.route import Stop, arrival, sort_route, stop_count

ROUTE = [Stop("b", 5), Stop("c", 9), Stop("a", 2)]


def test_sort_route_of_nothing():
    assert sort_route([]) == []


def test_sort_route_keeps_every_stop():
    assert len(sort_route(ROUTE)) == 3


def test_sort_route_starts_far_away():
    assert [stop.name for stop in sort_route(ROUTE)] == ["c", "b", "a"]


def test_stop_count_of_nothing():
    assert stop_count([]) == 0


def test_stop_count_counts_every_stop():
    assert stop_count(ROUTE) == 3


def test_arrival_at_once():
    assert arrival(8, 0, 50) == 8


def test_arrival_later():
    assert arrival(8, 100, 50) == 10


def test_arrival_needs_speed():
    with pytest.raises(ValueError):
        arrival(8, 100, 0)
