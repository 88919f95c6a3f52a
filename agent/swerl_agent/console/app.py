"""The console's web application. Every route is a GET but the login, and none changes anything in the folder."""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .access import ConsoleAccess, access_control
from .handlers import Handlers
from .login import Login
from .rendering import ASSETS, Pages
from .visitors import KubernetesToken

log = logging.getLogger(__name__)


def console_application(handlers: Handlers, access: ConsoleAccess) -> web.Application:
    """The application with the pages of `handlers`."""
    application = web.Application(middlewares=[access_control(access), _errors(handlers.pages)])
    for path, handler in (
        ("/", handlers.runs),
        ("/run", handlers.run),
        ("/episodes", handlers.episodes),
        ("/episode", handlers.episode),
        ("/live", handlers.live),
        ("/rollouts", handlers.rollouts),
        ("/tokens", handlers.tokens),
        ("/text", handlers.text),
        ("/grading", handlers.grading),
        ("/compare", handlers.compare),
        ("/assets/{name}", asset),
    ):
        application.router.add_get(path, handler)
    if isinstance(access.authenticator, KubernetesToken):
        login = Login(handlers.pages, access.authenticator)
        application.router.add_get("/login", login.form)
        application.router.add_post("/login", login.enter)
    return application


async def asset(request: web.Request) -> web.Response:
    """A file of the package; its address has its version, so a browser may keep it."""
    content, kind = ASSETS.get(request.match_info["name"], (None, ""))
    if content is None:
        raise web.HTTPNotFound
    headers = {"Cache-Control": "private, max-age=86400"}
    return web.Response(body=content, content_type=kind, charset="utf-8", headers=headers)


def _errors(pages: Pages) -> Middleware:
    """The middleware that makes a page of every error."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return pages.answer("error", {"status": error.status, "message": error.text}, status=error.status)
        except Exception:
            log.exception("the page %s failed", request.rel_url.path)
            return pages.answer("error", {"status": 500, "message": "This page failed; the log says why."}, status=500)

    return middleware
