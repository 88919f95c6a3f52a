"""What a Kubernetes API call can end in, as types.

Guarantees: an answer of 429 or 5xx, or none at all, is an `Unavailable`; every other refusal is an `ApiError`, chosen
by HTTP status. Nothing of aiohttp leaks through `KubeClient`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .retry_after import retry_after_seconds


class KubeError(Exception):
    """Base of everything that fails between this process and the API server."""

    reason: str = ""  # reason of the server's Status, if it sent one
    message: str = ""  # and its message


class ConfigError(KubeError):
    """The kubeconfig, the service account's files or a credential plugin cannot be used; the message names which."""


class Unavailable(KubeError):
    """The API server was not reached, or answered 429 or 5xx; the same request may succeed later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds the server asked to wait


class Unreachable(Unavailable):
    """No answer: connection refused, reset, TLS failure or timeout. Whether the server acted is unknown."""


class Throttled(Unavailable):
    """429: the server asks to wait."""


class ServerError(Unavailable):
    """5xx: the server or a server behind it failed."""


class WebhookFailed(ServerError):
    """500: an admission webhook of the cluster does not answer; the message names it."""


class ApiError(KubeError):
    """The API server refused a request: `status` is the HTTP code, `reason` the reason of its Status."""

    def __init__(self, request: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class BadRequest(ApiError):
    """400, or 422 as `Invalid`: the request or its object is not valid."""


class Invalid(BadRequest):
    """422: the object does not pass validation."""


class Unauthorized(ApiError):
    """401: no credentials, or wrong ones."""


class Forbidden(ApiError):
    """403: RBAC, a quota or an admission policy refused."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: the object exists already, or changed since it was read; `reason` says which."""

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Expired(ApiError):
    """410: a watch or a list cannot continue from that resourceVersion; list again."""


# How the API server refuses to make an object: by RBAC, a quota, a policy, validation, or a webhook that is down.
NOT_ADMITTED = (Forbidden, BadRequest, WebhookFailed)


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
}
FAILED_WEBHOOK = "failed calling webhook"  # the API server's message
NO_HEADERS: Mapping[str, str] = {}


def answer_error(
    request: str, status: int, body: str, headers: Mapping[str, str] | None = None
) -> ApiError | Throttled | ServerError:
    """The error of an answer; `request` (method and path) goes into its message."""
    reason, message = "", body.strip()[:500]
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        reason, message = str(parsed.get("reason") or ""), str(parsed.get("message") or "")
    if status == 429 or status >= 500 or status == 0:  # 0: a handshake that ended without a status
        failed = WebhookFailed if FAILED_WEBHOOK in message else ServerError
        kind = Throttled if status == 429 else failed
        error = kind(f"{request}: {status} {reason}: {message}", retry_after_seconds(status, headers or NO_HEADERS))
        error.reason, error.message = reason, message
        return error
    return _BY_STATUS.get(status, ApiError)(request, status, reason or "Error", message)
