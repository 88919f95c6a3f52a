"""Forecasts from past readings."""

from dataclasses import dataclass


@dataclass
class Day:
    name: str
    rain: float = 0
    sun: bool = False


def speed(distance, hours):
    if hours == 0:
        return 0
    return distance / hours


def storm(rain, wind):
    heavy = rain > 20
    return heavy and wind > 60


def worst(days, count):
    order = sorted(days, key=lambda day: day.rain, reverse=True)
    return order[:count]
