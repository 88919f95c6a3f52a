"""Stations and their readings."""

from dataclasses import dataclass


@dataclass
class Station:
    heat: float
    wind: float = 0
    open: bool = True


def peak(stations):
    if not stations:
        return 0
    return max(station.heat for station in stations)


def alarm(stations, limit):
    if not stations:
        return False
    return any(station.wind > limit for station in stations)


def chill(station):
    loss = station.wind * 2
    if not station.open:
        return station.heat
    return station.heat - loss
