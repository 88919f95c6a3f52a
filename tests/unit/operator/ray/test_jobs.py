"""What Ray's head says of a driver, and what the status makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from swerl_operator.ray.credentials import RayCredentials
from swerl_operator.ray.jobs import DriverState, RayHead, RayJobs, Submission

HEAD = RayHead("127.0.0.1", RayCredentials("the-token", "the-key"))


class Head:
    """A head on which one driver failed."""

    def __init__(self) -> None:
        self.logs = ""
        self.port = 0
        self.submitted: list[str] = []

    @web.middleware
    async def authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer the-token":
            return web.Response(status=401, text="Unauthorized")
        return await handler(request)

    async def submit(self, request: web.Request) -> web.Response:
        self.submitted.append((await request.json())["submission_id"])
        return web.json_response({})

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "FAILED", "message": "exit code 78", "driver_exit_code": 78})

    async def log(self, request: web.Request) -> web.Response:
        return web.json_response({"logs": self.logs})


@pytest.fixture
async def head() -> AsyncIterator[Head]:
    head = Head()
    app = web.Application(middlewares=[head.authenticate])
    app.add_routes([web.get("/api/jobs/uid-1-1", head.job), web.get("/api/jobs/uid-1-1/logs", head.log)])
    app.add_routes([web.post("/api/jobs/", head.submit)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    head.port = runner.addresses[0][1]
    yield head
    await runner.cleanup()


async def driver(port: int, head: RayHead = HEAD) -> DriverState:
    async with RayJobs(port) as jobs:
        return await jobs.driver(head, "uid-1-1")


async def test_drivers_own_error_replaces_the_log(head: Head) -> None:
    head.logs = "starting\nTraceback:\n  a\nSWERL-ERROR: TaskError: tasks.jsonl:3: field patch is missing\n(ended)\n"
    assert await driver(head.port) == DriverState("failed", "TaskError: tasks.jsonl:3: field patch is missing", 78)


async def test_killed_driver_is_reported_with_the_end_of_its_log(head: Head) -> None:
    head.logs = "".join(f"line {number}\n" for number in range(99))
    found = await driver(head.port)
    assert found.message.startswith("exit code 78; line 84\n") and found.message.endswith("line 98")


async def test_head_that_does_not_answer_is_unreachable() -> None:
    assert (await driver(9)).phase == "unreachable"


async def test_driver_is_submitted_with_rays_token(head: Head) -> None:
    async with RayJobs(head.port) as jobs:
        assert await jobs.submit(HEAD, Submission("uid-1-2", "python", {}))
    assert head.submitted == ["uid-1-2"]


async def test_head_with_another_token_is_unreachable_and_named(head: Head) -> None:
    found = await driver(head.port, RayHead("127.0.0.1", RayCredentials("another", "the-key")))
    assert (found.phase, found.message) == ("unreachable", "Ray answers 401: Unauthorized")
