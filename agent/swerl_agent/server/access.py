"""Which requests the server answers.

Guarantees: with a token, `/run` is for clients that send it. Without one, requests must name this machine, so no web
page reaches the server under a name of its own (DNS rebinding). A body must be declared as JSON, which browsers send to
other origins only if these agree (CSRF).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from swerl_api.addresses import LOOPBACK
from yarl import URL

from swerl_agent.json_body import content_type_problem

RUN = "/run"


@dataclass(frozen=True)
class ServerAccess:
    """Who may use the server."""

    token: str | None = field(default=None, repr=False)  # of clients, sent as `Authorization: Bearer TOKEN`
    hosts: frozenset[str] | None = LOOPBACK  # names in the Host header; None: any

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Status and reason if the request is refused."""
        if self.token is None and self.hosts is not None and _host(request) not in self.hosts:
            return 403, f"Host is {_host(request)!r}; without a token, use one of {sorted(self.hosts)}"
        if request.path != RUN:
            return None
        if self.token is not None and not _is_token(request.headers.get("Authorization", ""), self.token):
            return 401, "send the server's token: Authorization: Bearer TOKEN"
        problem = content_type_problem(request)
        return (415, problem) if problem else None


def access_middleware(access: ServerAccess, refuse: Callable[[int, str], web.Response]) -> Middleware:
    """Answers a refused request with `refuse(status, reason)`."""

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        found = access.refusal(request)
        return await handler(request) if found is None else refuse(*found)

    return checked


def same_origin(one: str, other: str) -> bool:
    """Whether both URLs have scheme, host and port in common."""
    return URL(one).origin() == URL(other).origin()


def _host(request: web.Request) -> str:
    """Name in the Host header, without its port."""
    try:
        return URL(f"http://{request.host}").host or ""
    except ValueError:
        return ""


def _is_token(header: str, token: str) -> bool:
    return hmac.compare_digest(header.encode(errors="surrogateescape"), f"Bearer {token}".encode())
