"""Errors that end all rollouts of an attempt."""

from __future__ import annotations


class RolloutsFailed(RuntimeError):
    """Infrastructure ended every recent group; the message shows one failure."""


class TaskImagesMissing(RolloutsFailed):
    """No task image of the attempt could be pulled; the message names one and the remedy."""
