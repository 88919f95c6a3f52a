"""Stock levels of the warehouse."""

from dataclasses import dataclass


@dataclass
class Item:
    name: str
    level: int
    price: float = 1.0


def low_stock(items, minimum):
    short = []
    for item in items:
        if item.level <= minimum:
            short.append(item)
    return short


def stock_value(items, deposit):
    total = sum(item.level * item.price for item in items)
    if not total:
        return 0
    return total - deposit


def ready(items):
    if not items:
        return False
    return all(item.level > 0 for item in items)
