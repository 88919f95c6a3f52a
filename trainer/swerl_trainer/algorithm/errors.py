"""Errors of the learning rule."""

from __future__ import annotations


class AlgorithmError(ValueError):
    """Inconsistent samples, settings or batches; the message names the sample or the field."""
