"""Errors of the learning rule."""

from __future__ import annotations


class AlgorithmError(ValueError):
    """Samples, settings or batches that contradict themselves; the message names the sample or the field."""
