"""The agent's client and a server with Retry-After: it waits as long as requested, not forever, and loses nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from swerl_kube import ClientOptions, HandshakeError, KubeClient, ServerError, Throttled, Unavailable
from swerl_kube.retry_after import LONGEST_WAIT, SPREAD, next_wait, parse_retry_after, pause_after, retry_after_seconds

from tests.busy_server import OK, BusyServer

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
Opened = Callable[..., AbstractAsyncContextManager[tuple[KubeClient, BusyServer]]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A client of a server with these refusals."""

    @asynccontextmanager
    async def opened(*refusals: tuple[int, str], **options: Any) -> AsyncIterator[tuple[KubeClient, BusyServer]]:
        async with (
            BusyServer(*refusals) as server,
            KubeClient.from_environment(server.kubeconfig(tmp_path / "config"), ClientOptions(**options)) as client,
        ):
            yield client, server

    return opened


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_rejected_request_is_sent_again_after_retry_after(opened: Opened, method: str) -> None:
    async with opened((429, "1"), (503, "1")) as (client, server):
        if method == "GET":
            await client.get("v1", "pods", "ns", "x")
        else:
            await client.create("pods", POD, namespace="ns")
        assert [requested_method for _, requested_method, _ in server.requests] == [method] * 3
        assert min(server.pauses) >= 1


@pytest.mark.parametrize(
    ("status", "retry_after", "kind"), [(429, "", Throttled), (503, "", ServerError), (500, "1", ServerError)]
)
async def test_write_that_may_have_been_carried_out_is_sent_once(
    opened: Opened, status: int, retry_after: str, kind: type[Exception]
) -> None:
    async with opened((status, retry_after)) as (client, server):
        with pytest.raises(kind):
            await client.create("pods", POD, namespace="ns")
        assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["get", "delete"])
async def test_retry_after_beyond_the_limit_is_raised_to_the_caller(opened: Opened, method: str) -> None:
    async with opened((429, "3600")) as (client, server):
        with pytest.raises(Throttled) as caught:
            await getattr(client, method)("v1", "pods", "ns", "x")
        assert caught.value.retry_after == 3600 and len(server.requests) == 1


async def test_call_waits_as_asked_up_to_a_limit(opened: Opened) -> None:
    async with opened(*[(429, "1")] * 100, longest_wait=2.0) as (client, server):
        with pytest.raises(Throttled):
            await client.list("v1", "pods", "ns")
        assert len(server.requests) == 2


async def test_watch_resumes_after_retry_after(opened: Opened) -> None:
    async with opened(OK, (429, "1")) as (client, server):
        async for event in client.watch("v1", "pods", "ns"):
            assert event.object["metadata"]["name"] == "x"
            break
        assert len(server.requests) == 3, "a list, a stream refused, a stream"
        assert server.pauses[1] >= 1


async def test_exec_stream_opens_after_retry_after(opened: Opened) -> None:
    async with opened((429, "1")) as (client, server):
        channel = await client.exec_stream("ns", "x", ["sh"])
        await channel.close()
        assert server.pauses[0] >= 1
    async with opened((429, "7")) as (client, _):
        with pytest.raises(HandshakeError) as caught:
            await client.exec_stream("ns", "x", ["sh"], retries=0)
        assert caught.value.retry_after == 7


def test_only_seconds_of_a_refusal_count() -> None:
    def delay_of(status: int, text: str) -> float | None:
        return retry_after_seconds(status, {"Retry-After": text})

    assert (delay_of(429, "2"), delay_of(503, " 0 ")) == (2.0, 0.0)
    assert not [text for text in ("", "-1", "soon", "²") if delay_of(429, text) is not None]
    assert delay_of(500, "1") is delay_of(200, "1") is retry_after_seconds(429, {}) is None


def test_waits_respect_retry_after_up_to_a_limit() -> None:
    assert next_wait(None, 0) is next_wait(LONGEST_WAIT + 1, 0) is next_wait(20, 20) is None
    waits = [wait for _ in range(100) if (wait := next_wait(2.0, 0)) is not None]
    assert 2.0 <= min(waits) < max(waits) <= 2.0 * SPREAD
    assert (next_wait(0.0, 0) or 0) > 0, "a server that asks for nothing is not hammered"
    assert [pause_after(Unavailable("", wait), 3.0) for wait in (1.0, 5.0, None)] == [3.0, 5.0, 3.0]
    assert pause_after(Unavailable("", 3600.0), 3.0) == LONGEST_WAIT


def test_retry_after_is_seconds_or_a_date() -> None:
    assert (parse_retry_after("7"), parse_retry_after("2.5")) == (7.0, 2.5)
    assert {parse_retry_after(text) for text in ("", "soon", "-3", "nan", "inf", "1_0")} == {None}
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    later = parse_retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert later is not None and 50 < later <= 60
