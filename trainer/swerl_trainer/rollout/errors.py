"""Why there will be no more rollouts."""

from __future__ import annotations


class RolloutsFailed(RuntimeError):
    """No group comes to an end any more; the message shows one failure."""


class TaskImagesMissing(RolloutsFailed):
    """No episode ever had its task's image; the message names one, and what to do before the job is made anew."""
