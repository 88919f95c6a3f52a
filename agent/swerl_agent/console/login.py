"""The page that asks for a token of the cluster."""

from __future__ import annotations

from aiohttp import web
from swerl_kube import KubeError

from .access import admitted, own_path, undecided
from .rendering import Pages
from .visitors import KubernetesToken

LONGEST_IN_COOKIE = 4000  # characters; browsers drop a longer cookie without a word
TOO_LONG = "This token is too long for a browser's cookie: use one of `kubectl create token`, or a proxy."
SAME_ORIGIN = {None, "same-origin", "none"}  # Sec-Fetch-Site: None from programs and old browsers


class Login:
    """The form and its answer."""

    def __init__(self, pages: Pages, authenticator: KubernetesToken) -> None:
        self._pages, self._authenticator = pages, authenticator

    async def form(self, request: web.Request) -> web.Response:
        """An empty form; `next` is the page that was asked for."""
        return self._page(request.query.get("next", "/"))

    async def enter(self, request: web.Request) -> web.Response:
        """Back to the page that was asked for, or the form with what is wrong."""
        if request.headers.get("Sec-Fetch-Site") not in SAME_ORIGIN:
            raise web.HTTPForbidden(text="The form of another site cannot log in here.\n")
        given = await request.post()
        token, following = str(given.get("token", "")).strip(), str(given.get("next", "/"))
        if len(token) > LONGEST_IN_COOKIE:
            return self._page(following, TOO_LONG, status=400)
        try:
            visitor = await self._authenticator.of_token(token)
        except KubeError as error:
            return self._page(following, undecided(error).strip(), status=503)
        if visitor is None:
            return self._page(following, self._authenticator.refusal.strip(), status=403)
        return admitted(request, token, following)

    def _page(self, following: str, wrong: str = "", status: int = 200) -> web.Response:
        return self._pages.answer("login", {"next": own_path(following), "wrong": wrong}, status=status)
