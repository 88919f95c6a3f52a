"""Refusals in the format of OpenAI's API."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)


@dataclass
class Refusal(Exception):
    """A refused request; `param` names the invalid field."""

    status: int  # of HTTP
    kind: str
    code: str | None
    message: str
    param: str | None = None

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def body(self) -> dict[str, Any]:
        """The response body."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def invalid(message: str, param: str | None, *, code: str | None = None) -> Refusal:
    """The request cannot be answered as it is."""
    return Refusal(400, "invalid_request_error", code, message, param)


def ended(code: str, message: str) -> Refusal:
    """A limit of the episode is reached; clients do not retry."""
    return Refusal(404, "invalid_request_error", code, message)


def closed() -> Refusal:
    """The episode has ended or does not exist."""
    return Refusal(404, "invalid_request_error", "episode_not_found", "no such episode, or it has ended")


def internal(error: Exception) -> Refusal:
    """The gateway itself failed; the error is logged."""
    logger.error("a request for a chat completion failed", exc_info=error)
    return Refusal(500, "server_error", "internal", f"{type(error).__name__}: {error}")
