"""Who may read the pages, and what a browser may do with them.

Guarantees: a request with a foreign Host header is refused, so that no other site's name can be pointed at the
console. With a token, every page needs it: once in the address, then as a cookie. Pages run and load nothing but the
console's own files.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from swerl_api.addresses import LOOPBACK

COOKIE = "swerl_console"
PARAMETER = "token"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PORT = re.compile(r":\d{1,5}$")


@dataclass(frozen=True)
class ConsoleAccess:
    """The rules of one console."""

    host: str = "127.0.0.1"  # address that it listens at
    token: str = ""  # '': none is needed
    names: frozenset[str] = frozenset()  # more names that it is reached by

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def knows(self, header: str) -> bool:
        """Whether a Host header names this console."""
        name = _PORT.sub("", header).strip("[]").lower()
        own = LOOPBACK | self.names | {self.host}
        if self.local or name in own:
            return name in own
        return name in {socket.gethostname().lower(), socket.getfqdn().lower()} or _is_address(name)

    def admits(self, given: str | None) -> bool:
        """Whether this token opens the pages."""
        offered = (given or "").encode(errors="surrogateescape")
        return not self.token or hmac.compare_digest(offered, self.token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def access_control(access: ConsoleAccess) -> Middleware:
    """The middleware that applies `access` to every request and adds the headers to every answer."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _answer(request, handler)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not access.knows(request.headers.get("Host", "")):
            return web.Response(status=421, text="The Host header has a foreign name. To allow it: --allow-host NAME\n")
        given = request.query.get(PARAMETER)
        if given is not None and access.token and access.admits(given):
            rest = request.rel_url.without_query_params(PARAMETER)
            answer = web.Response(status=303, headers={"Location": "/" + str(rest).lstrip("/")})
            answer.set_cookie(COOKIE, given, httponly=True, samesite="Strict")
            return answer
        if not access.admits(request.cookies.get(COOKIE)):
            return web.Response(status=403, text="Open the address that swerl view printed, with its token.\n")
        return await handler(request)

    return middleware
