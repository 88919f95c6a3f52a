"""The operator and a server with Retry-After: it waits as long as requested, and not forever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_kube import KubeClient, Unavailable
from swerl_operator.kube import OPTIONS, operator_client
from swerl_operator.metrics import Metrics
from swerl_operator.workqueue import WorkQueue

from tests.busy_server import BODY, BusyServer

Opened = Callable[..., AbstractAsyncContextManager[tuple[KubeClient, BusyServer]]]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "x"}}


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """A client of a server with these refusals."""

    @asynccontextmanager
    async def opened(*refusals: tuple[int, str], **changes: Any) -> AsyncIterator[tuple[KubeClient, BusyServer]]:
        async with BusyServer(*refusals) as server:
            monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path / "config"))
            async with operator_client(Metrics(), replace(OPTIONS, **changes)) as api:
                yield api, server

    return opened


async def test_throttled_request_is_sent_again_after_its_delay(opened: Opened) -> None:
    async with opened((429, "1"), (503, "1")) as (api, server):
        assert await api.create("pods", POD) == BODY
        assert [method for _, method, _ in server.requests] == ["POST"] * 3
        assert min(server.pauses) >= 1


async def test_429_without_a_delay_is_raised_to_the_caller(opened: Opened) -> None:
    async with opened((429, "")) as (api, server):
        with pytest.raises(Unavailable) as caught:
            await api.create("pods", POD)
        assert caught.value.retry_after is None and len(server.requests) == 1


async def test_call_waits_for_the_requested_delay_but_not_for_ever(opened: Opened) -> None:
    async with opened(*[(429, "1")] * 100, longest_wait=2.0) as (api, server):
        with pytest.raises(Unavailable) as caught:
            await api.list("v1", "pods", "ns")
        assert caught.value.retry_after == 1 and len(server.requests) == 2


async def test_throttled_watch_raises_with_the_delay(opened: Opened) -> None:
    async with opened((429, "5")) as (api, _):
        with pytest.raises(Unavailable) as caught:
            async for _ in api.stream("/api/v1/pods", 1):
                pass
        assert caught.value.retry_after == 5


async def test_queue_retries_after_the_servers_delay() -> None:
    requests: list[float] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> None:
        requests.append(time.monotonic())
        if len(requests) == 1:
            raise Unavailable("429: too many requests", retry_after=0.5)
        done.set()

    queue: WorkQueue[str] = WorkQueue("Thing", reconcile, Metrics(), workers=1, retry_seconds=(0.01, 60.0))
    queue.add("x")
    running = asyncio.create_task(queue.run())
    await asyncio.wait_for(done.wait(), 30)
    running.cancel()
    assert requests[1] - requests[0] >= 0.5
