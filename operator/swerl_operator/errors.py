"""Errors of the Kubernetes API as the operator distinguishes them."""

from __future__ import annotations

from swerl_api.retry_after import at_least_as_told


class OperatorError(Exception):
    """Base of every error the operator raises itself."""


class ApiError(OperatorError):
    """The API server refused a request: `status` is the HTTP code, `reason` the Status reason."""

    def __init__(self, request: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: the object exists already, or changed since it was read."""


class Forbidden(ApiError):
    """403: RBAC, quota or admission policy."""


class Invalid(ApiError):
    """422: the object does not pass validation."""


class Gone(ApiError):
    """410: a watch or a list cannot go on from that version; list anew."""


class Unavailable(OperatorError):
    """The API server could not be reached or answered 429 or 5xx; the same request may succeed later."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds for which the server asked to be left alone


def pause_after(error: Exception, usual: float) -> float:
    """Seconds until the next try: `usual`, or longer where the server said so."""
    return at_least_as_told(usual, error.retry_after if isinstance(error, Unavailable) else None)


BY_STATUS: dict[int, type[ApiError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}
