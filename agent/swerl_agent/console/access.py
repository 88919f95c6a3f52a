"""Who may read the pages, and what a browser may do with them.

Guarantees: a request with a foreign Host header is refused, so that no other site's name can be pointed at the
console. Every page needs a visitor that the authenticator admits. A token is in the address or in the login form once,
then in a cookie that no script reads. Pages run and load nothing but the console's own files.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from swerl_api.addresses import LOOPBACK
from swerl_kube import KubeError

from .visitors import COOKIE, Authenticator, SharedToken, Visitor

OPEN_PAGES = ("/login", "/assets/")  # visible without a token
VISITOR = web.RequestKey("visitor", Visitor)
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
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True)
class ConsoleAccess:
    """The rules of one console."""

    host: str = "127.0.0.1"  # address that it listens at
    authenticator: Authenticator = field(default_factory=SharedToken)
    names: frozenset[str] = frozenset()  # more names that it is reached by

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def accepts_host(self, header: str) -> bool:
        """Whether a Host header names this console."""
        name = _PORT.sub("", header).strip("[]").lower()
        own = LOOPBACK | self.names | {self.host}
        if self.local or name in own:
            return name in own
        return name in {socket.gethostname().lower(), socket.getfqdn().lower()} or _is_address(name)


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
        if not access.accepts_host(request.headers.get("Host", "")):
            return web.Response(status=421, text="The Host header has a foreign name. To allow it: --allow-host NAME\n")
        given, authenticator = request.query.get(PARAMETER), access.authenticator
        if (
            given is not None
            and isinstance(authenticator, SharedToken)
            and authenticator.token
            and authenticator.admits(given)
        ):
            return admitted(request, given, str(request.rel_url.without_query_params(PARAMETER)))
        if authenticator.login and request.path.startswith(OPEN_PAGES):
            return await handler(request)
        try:
            visitor = await authenticator.visitor(request)
        except KubeError as error:
            return web.Response(status=503, text=undecided(error))
        if visitor is None:
            return _refused(request, authenticator)
        request[VISITOR] = visitor
        return await handler(request)

    return middleware


def undecided(error: KubeError) -> str:
    """For visitors while the API server does not answer."""
    return f"The API server did not say who may open this page: {error}; try again.\n"


def admitted(request: web.Request, token: str, then: str) -> web.Response:
    """Keeps the token in the browser and goes to the page `then`."""
    answer = web.Response(status=303, headers={"Location": own_path(then)})
    secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
    answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict", secure=secure)
    return answer


def own_path(path: str) -> str:
    """The path on this console, whatever else it may be read as; a header may have it."""
    return "/" + _UNPRINTABLE.sub("", path.replace("\\", "/")).lstrip("/")


def _refused(request: web.Request, authenticator: Authenticator) -> web.Response:
    if authenticator.login and "text/html" in request.headers.get("Accept", ""):
        return web.Response(status=303, headers={"Location": f"/login?{urlencode({'next': str(request.rel_url)})}"})
    return web.Response(status=401 if authenticator.login else 403, text=authenticator.refusal)
