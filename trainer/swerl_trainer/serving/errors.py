"""Errors of serving."""

from __future__ import annotations


class ServingError(RuntimeError):
    """What is to be served is not there, or cannot be served: trying again would fail the same way."""
