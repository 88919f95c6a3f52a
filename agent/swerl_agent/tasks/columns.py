"""Columns that some data sets hold as JSON text and others as what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def decoded(columns: Mapping[str, Any], key: str) -> Any:
    """The column, or what its text says as JSON; raises ValueError naming it when the text is none."""
    value = columns.get(key)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"field {key} is a string that is not JSON: {error}") from error
