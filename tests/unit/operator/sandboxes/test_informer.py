"""Lists find what the watches missed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from swerl_kube import Expired, Unavailable
from swerl_operator.sandboxes.settings import SandboxSettings

from tests.unit.operator.sandboxes.operator_in_memory import (
    LIMIT,
    SETTINGS,
    InMemoryOperator,
    run_until,
    status_is_complete,
)


async def test_watch_resumes_where_it_broke_and_lists_when_its_version_is_gone(
    make_api_server: Callable[..., Any],
) -> None:
    server, opened = make_api_server(random.Random(0)), []

    async def stream(url: str, version: int, *, labels: str = "") -> AsyncIterator[tuple[str, dict[str, Any]]]:
        if "pods" in url:
            await asyncio.Event().wait()
        opened.append(version)
        if len(opened) == 1:
            yield "BOOKMARK", {"metadata": {"resourceVersion": "70"}}
            raise Unavailable("the stream broke")
        if len(opened) == 2:
            server.declare("g", replicas=4)
            raise Expired("WATCH", 410, "Expired", "too old")
        await asyncio.Event().wait()

    server.stream = stream
    operator = InMemoryOperator(server, SandboxSettings(finished_ttl=60))
    await run_until(server, operator, lambda: bool(server.pods) and len(opened) == 3, deliver=False)
    await operator.kill()
    assert opened[1] == 70


async def test_group_replaced_without_an_event_keeps_no_place_in_the_queue(
    make_api_server: Callable[..., Any],
) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server)
    server.declare("first", replicas=LIMIT, maxConcurrent=LIMIT)
    await run_until(server, operator, lambda: len(server.pods) == LIMIT and status_is_complete(server, "swesb-first-0"))
    server.declare("g", replicas=5, maxConcurrent=LIMIT)
    await run_until(server, operator, lambda: "status" in server.sandboxes["g"])
    server.remove("sandbox", "g")
    server.declare("g", replicas=4, maxConcurrent=LIMIT)
    server.events.clear()  # only a list finds it
    await asyncio.sleep(2 * SETTINGS.resync)
    for name in list(server.pods):
        server.remove("pod", name)
    await run_until(server, operator, lambda: [name for name in server.pods if "-g-" in name] != [], ready=False)
    await operator.kill()
    assert any("-g-" in name for name in server.pods)
