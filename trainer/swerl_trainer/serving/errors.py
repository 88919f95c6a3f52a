"""Errors of serving."""

from __future__ import annotations


class ServingError(RuntimeError):
    """The model is missing or cannot be served; a retry would fail the same way."""
