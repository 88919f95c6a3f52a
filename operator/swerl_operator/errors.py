"""Errors that the operator raises itself; those of the Kubernetes API are in swerl_kube."""

from __future__ import annotations


class OperatorError(Exception):
    """The operator cannot start or continue; the message has the reason."""
