"""Errors of the inference side."""

from __future__ import annotations


class EngineError(RuntimeError):
    """An engine or the router cannot do what was asked; the message says which one, what and why."""


class EngineStartError(EngineError):
    """A server did not become ready; the message ends with the tail of its log."""


class EngineCallError(EngineError):
    """A control call was refused or not answered; the engine's state is unknown until it is replaced or renewed."""
