"""The check that a request declares its body as JSON, which browsers send to other origins only if these agree."""

from __future__ import annotations

from aiohttp import web

JSON = "application/json"


def content_type_problem(request: web.Request) -> str:
    """Why the body is refused (status 415), and what to send; empty when it is declared as JSON."""
    if request.content_type == JSON:
        return ""
    return f"the body is {request.content_type}; send it as Content-Type: {JSON}"
