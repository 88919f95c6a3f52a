"""Fields of unchecked JSON: every reader returns its type, whatever is there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LARGEST_FILE = 256 << 20  # bytes of a file that is read


def read_object(path: Path, *, largest: int = LARGEST_FILE) -> dict[str, Any]:
    """The JSON object in a file; {} where the file is missing, half-written, too large or something else."""
    try:
        if path.stat().st_size > largest:
            return {}
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` where it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """`value` where it is an array, else []."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """`value` where it is a text, '' for null, JSON for anything else."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def number(value: Any) -> float | None:
    """`value` where it is a finite number (a truth value counts 0 or 1), else None."""
    try:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    except OverflowError:
        return None


def integer(value: Any) -> int | None:
    """`value` where it is a whole number that SQLite can hold, else None."""
    found = number(value)
    return int(found) if found is not None and abs(found) < 1 << 62 else None
