"""Weight and cost of parcels."""

from dataclasses import dataclass


@dataclass
class Parcel:
    weight: float
    length: float = 10
    width: float = 10
    cost: float = 0


def charge_weight(parcel):
    surface = parcel.length * parcel.width
    volume = surface / 50
    return max(volume, parcel.weight)


def cost_share(parcel, people):
    if not people:
        return 0
    return parcel.cost / people


def bulk(parcel, limit):
    long = parcel.length > 100
    return long or parcel.weight > limit
