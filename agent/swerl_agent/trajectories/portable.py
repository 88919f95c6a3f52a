"""JSON that every reader accepts.

Guarantee: any value that the `json` module can read becomes one without lone surrogates, numbers that are not finite
and deep nesting. Everything else stays as it is, control characters too: JSON escapes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .fields import text

DEEPEST = 40  # levels; what lies deeper becomes a text


def portable(value: Any, depth: int = 0) -> Any:
    """`value` with lone surrogates written as `\\udc80`, numbers that are not finite as null."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping | list | tuple):
        if depth > DEEPEST:
            return whole_text(text(value))
        if isinstance(value, Mapping):
            return {whole_text(str(key)): portable(each, depth + 1) for key, each in value.items()}
        if all(type(each) is int for each in value):
            return value  # token ids
        return [portable(each, depth + 1) for each in value]
    return value


def whole_text(value: str) -> str:
    """`value` as text that UTF-8 can encode."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def portable_json(value: Any) -> bytes:
    """`value` as a line of ASCII."""
    return json.dumps(portable(value), allow_nan=False).encode() + b"\n"


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def iso_time(seconds: float | None) -> str | None:
    """A time since 1970 in ISO 8601, in UTC; None where it is none."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None
