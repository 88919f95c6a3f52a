"""What a Kubernetes API call can end in, as types.

Guarantee: every answer outside 2xx becomes exactly one `ApiError` subclass, chosen by HTTP status; a call that got no
answer at all (refused, reset, timed out) becomes `Unreachable`. Nothing of aiohttp leaks through `KubeClient`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swerl_api.retry_after import told_to_wait


class KubeError(Exception):
    """Anything that went wrong between this process and the API server."""

    retry_after: float | None = None  # seconds for which the server asked to be left alone


class Unreachable(KubeError):
    """No answer: connection refused, reset, TLS failure or timeout. Whether the server acted is unknown."""


class ConfigError(KubeError):
    """The kubeconfig or in-cluster files cannot be used; the message names the file and field."""


class ApiError(KubeError):
    """The server answered with an error Status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class BadRequest(ApiError):
    """400 or 422: the object is not valid."""


class Unauthorized(ApiError):
    """401: no or wrong credentials."""


class Forbidden(ApiError):
    """403: the account lacks a right, or admission refused."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: exists already, or was changed meanwhile; `reason` tells which."""

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Expired(ApiError):
    """410: the resource version is too old; list again."""


class Throttled(ApiError):
    """429: the server asks to wait."""


class ServerError(ApiError):
    """5xx: the server or what stands behind it failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: BadRequest,
    429: Throttled,
}


def api_error(status: int, body: str, headers: Mapping[str, str] | None = None, *, what: str) -> ApiError:
    """The typed error of an answer; `what` (method and path) goes into the message."""
    reason, message = "", body.strip()[:500]
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        reason, message = str(parsed.get("reason") or ""), str(parsed.get("message") or "")
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    error = kind(status, reason, f"{what}: {message}")
    error.retry_after = told_to_wait(status, headers or {})
    return error
