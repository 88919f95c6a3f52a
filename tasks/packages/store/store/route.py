"""Delivery routes."""

from dataclasses import dataclass


@dataclass
class Stop:
    name: str
    distance: int = 0


def sort_route(stops):
    if not stops:
        return []
    return sorted(stops, key=lambda stop: stop.distance, reverse=True)


def stop_count(stops):
    if not stops:
        return 0
    return len(stops)


def arrival(start, distance, speed):
    if not speed:
        raise ValueError("speed")
    duration = distance / speed
    return start + duration
