"""What Ray's head says of a driver, and what the status makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from swerl_operator.ray.jobs import DriverState, RayJobs


class Head:
    """A head on which one driver failed."""

    def __init__(self) -> None:
        self.logs = ""
        self.port = 0

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "FAILED", "message": "exit code 78", "driver_exit_code": 78})

    async def log(self, request: web.Request) -> web.Response:
        return web.json_response({"logs": self.logs})


@pytest.fixture
async def head() -> AsyncIterator[Head]:
    head, app = Head(), web.Application()
    app.add_routes([web.get("/api/jobs/uid-1-1", head.job), web.get("/api/jobs/uid-1-1/logs", head.log)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    head.port = runner.addresses[0][1]
    yield head
    await runner.cleanup()


async def driver(port: int) -> DriverState:
    async with RayJobs(port) as jobs:
        return await jobs.driver("127.0.0.1", "uid-1-1")


async def test_drivers_own_error_replaces_the_log(head: Head) -> None:
    head.logs = "starting\nTraceback:\n  a\nSWERL-ERROR: TaskError: tasks.jsonl:3: field patch is missing\n(ended)\n"
    assert await driver(head.port) == DriverState("failed", "TaskError: tasks.jsonl:3: field patch is missing", 78)


async def test_killed_driver_is_reported_with_the_end_of_its_log(head: Head) -> None:
    head.logs = "".join(f"line {number}\n" for number in range(99))
    found = await driver(head.port)
    assert found.message.startswith("exit code 78; line 84\n") and found.message.endswith("line 98")


async def test_head_that_does_not_answer_is_unreachable() -> None:
    assert (await driver(9)).phase == "unreachable"
