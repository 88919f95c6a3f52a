"""Errors of the inference side."""

from __future__ import annotations


class EnginePoolError(RuntimeError):
    """An engine or the router failed; the message names it, the operation and the cause."""


class EngineStartError(EnginePoolError):
    """A server did not become ready; the message ends with the tail of its log."""


class EngineCallError(EnginePoolError):
    """A control call was refused; the engine's state is unknown until its next full update."""


class EngineLost(EngineCallError):
    """The engine did not answer a control call, in time or at all; it must be replaced."""
