"""Columns that some data sets hold as text and others as the value itself."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any


def decoded(columns: Mapping[str, Any], key: str) -> Any:
    """The column, or the value that its text holds as JSON or as a Python literal; None for empty text.

    Raises ValueError naming the column for any other text.
    """
    value = columns.get(key)
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        reason = error
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"field {key} is text that is neither JSON nor a Python literal: {reason}") from reason
