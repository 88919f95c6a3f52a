"""Kubernetes quantities and durations as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal("1e3"),
    "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"), "E": Decimal("1e18"),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")

Amounts = dict[str, Decimal]  # by resource name: cores, bytes, devices


def parse_quantity(text: str | int) -> Decimal:
    """`500m` → 0.5, `1Gi` → 1073741824; raises ValueError."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {text!r}")
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def parse_duration(text: str) -> float:
    """Seconds of a Go duration, as in `15.1s`, `1m0s`, `350ms`; less than a millisecond is 0, and so is ''."""
    total, number = 0.0, ""
    for letter in text.replace("ms", "_"):
        if letter.isdigit() or letter == ".":
            number += letter
            continue
        total += float(number or 0) * {"h": 3600.0, "m": 60.0, "s": 1.0, "_": 1e-3}.get(letter, 0.0)
        number = ""
    return total


def parse_amounts(quantities: Mapping[str, str | int] | None) -> Amounts:
    """Every quantity of a requests, limits or allocatable map."""
    return {name: parse_quantity(value) for name, value in (quantities or {}).items()}


def format_quantity(resource: str, amount: Decimal) -> str:
    """`amount` of `resource` in a message: `1.5 cpu`, `12.0 GiB memory`, `8 nvidia.com/gpu`."""
    if resource in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30:.1f} GiB {resource}"
    return f"{amount.normalize():f} {resource}"
