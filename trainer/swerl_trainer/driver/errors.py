"""Errors that end an attempt."""

from __future__ import annotations


class DriverError(RuntimeError):
    """The attempt cannot continue; the message says what failed and what to do."""


class AttemptSuperseded(DriverError):
    """The job has a newer attempt, or was deleted."""
