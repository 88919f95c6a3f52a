"""Why a command about a job does nothing."""

from __future__ import annotations


class JobCommandError(Exception):
    """The request cannot be carried out; the message says why and what to do. Nothing was changed."""
