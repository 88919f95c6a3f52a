"""Errors that end an attempt."""

from __future__ import annotations


class DriverError(RuntimeError):
    """The attempt cannot go on; the message says what failed and what to do."""


class Superseded(DriverError):
    """Another attempt, or the end of the job, has taken over."""
