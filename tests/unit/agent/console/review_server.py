"""An API server that answers reviews of three users, for the console's visitors."""

from __future__ import annotations

from aiohttp import web

USERS = {"viewer-token": "viewer", "reviewer-token": "reviewer", "stranger-token": "stranger"}
RIGHTS = {("viewer", ""), ("reviewer", ""), ("reviewer", "groundtruth"), ("team:editors", "")}


class ReviewServer:
    """Answers reviews by `USERS` and `RIGHTS`; a right is a user's or a group's."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body["kind"])
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            name = USERS.get(spec["token"])
            status = {"authenticated": bool(name), "user": {"username": name, "groups": ["system:authenticated"]}}
        else:
            what = spec["resourceAttributes"]
            assert (what["verb"], what["resource"], what["namespace"]) == ("get", "swerljobs", "runs")
            rights = {(who, what["subresource"]) for who in (spec["user"], *spec["groups"])}
            status = {"allowed": bool(rights & RIGHTS)}
        return web.json_response({**body, "status": status}, status=201)


def review_application(server: ReviewServer) -> web.Application:
    """The paths of the API at which `server` answers."""
    application = web.Application()
    application.router.add_post("/apis/{group}/v1/{kind}", server.answer)
    return application
