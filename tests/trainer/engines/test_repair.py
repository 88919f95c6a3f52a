"""Engines that generate nothing, or slowly, as the pool's watcher sees them over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from swerl_trainer.engines.errors import EngineCallError
from swerl_trainer.engines.handle import EngineHandle
from swerl_trainer.engines.health import EngineHealth
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.events import event_reason
from swerl_trainer.location import Location
from swerl_trainer.weight_bucket import WeightPart, WeightSample

PROBE = 0.5  # seconds
CONTROL = 2.0  # seconds of a call that moves no weights


def test_engine_is_dead_after_two_probes_without_a_token() -> None:
    health = EngineHealth()
    assert health.assess({0: None, 1: 1.0}) == {0: "healthy", 1: "healthy"}
    assert health.assess({0: None, 1: 1.0}) == {0: "dead", 1: "healthy"}
    health.remove(0)
    assert health.assess({0: None, 1: 1.0})[0] == "healthy"


def test_an_answer_between_two_silences_clears_an_engine() -> None:
    health = EngineHealth()
    assert [health.assess({0: answer})[0] for answer in (None, 1.0, None)] == ["healthy"] * 3


def test_engine_is_slow_after_two_late_answers_until_one_in_time() -> None:
    health = EngineHealth()
    rounds = [{0: seconds, 1: 1.0, 2: 2.0} for seconds in (20.0, 20.0, 20.0, 3.0)]
    assert [health.assess(each)[0] for each in rounds] == ["healthy", "slow", "slow", "healthy"]


@pytest.mark.parametrize("times", [{0: 20.0}, {0: 4.9, 1: 0.1}, {0: 20.0, 1: 19.0}])
def test_engine_is_not_slow_alone_or_below_five_seconds_or_like_the_others(times: dict[int, float]) -> None:
    health = EngineHealth()
    assert [set(health.assess(times).values()) for _ in range(3)] == [{"healthy"}] * 3


def test_at_most_half_of_the_engines_are_slow() -> None:
    health = EngineHealth()
    times = {0: 1.0, 1: 1.0, 2: 1.0, 3: 50.0, 4: 60.0}
    assert [list(health.assess(times).values()).count("slow") for _ in range(2)] == [0, 2]


class Server:
    """An engine's control interface on a port of its own; it starts again with another one."""

    locations: tuple[Location, ...] = ()

    def __init__(self) -> None:
        self.starts = 0
        self.reads_model: list[bool] = []  # of each start
        self.delay = 0.0  # of a probe's answer
        self.frozen_from = ""  # the call from which on none is answered
        self.calls: list[str] = []  # of the server that runs now
        self.starting = asyncio.Event()  # set: a second start may go on
        self._runner: web.AppRunner | None = None

    async def start(self, *, reads_model: bool = True) -> str:
        self.starts += 1
        self.reads_model.append(reads_model)
        if self.starts > 1:
            await self.starting.wait()
        application = web.Application()
        application.router.add_route("*", "/{call}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.delay, self.frozen_from, self.calls = 0.0, "", []
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _answer(self, request: web.Request) -> web.Response:
        call = request.match_info["call"]
        if call == "health_generate":
            await asyncio.sleep(self.delay)
        elif call != "ready":
            self.calls.append(call)
        if self.frozen_from in self.calls:
            await asyncio.Event().wait()
        return web.json_response({"success": True})

    def freeze(self, call: str) -> None:
        """Answer nothing any more from the next `call` on."""
        self.frozen_from, self.calls = call, []

    async def alive(self) -> bool:
        return True

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


class Routes:
    """The engines that get requests."""

    alive = True

    def __init__(self) -> None:
        self.engines: set[str] = set()
        self.faults: dict[str, Exception] = {}  # of the next call of a name, after the router has obeyed

    async def start(self) -> None: ...

    async def add(self, url: str) -> None:
        self.engines.add(url)
        self._fail("add")

    async def remove(self, url: str) -> None:
        self.engines.discard(url)
        self._fail("remove")

    def _fail(self, call: str) -> None:
        if call in self.faults:
            raise self.faults.pop(call)

    async def finish_removals(self) -> None: ...

    def stop(self) -> None: ...


class NoWeights:
    """A trainer whose every update is an empty one."""

    async def weight_parts(self, *_: object, **__: object) -> list[WeightPart]:
        return []

    async def weight_sample(self, *_: object, **__: object) -> WeightSample:
        return WeightSample((), ())


@contextlib.asynccontextmanager
async def watched(*servers: Server, needs_model: bool = False) -> AsyncIterator[tuple[EnginePool, set[str]]]:
    """The pool of `servers` after a resume, and the engines that get requests."""
    handles: list[EngineHandle] = list(servers)
    routes = Routes()
    async with aiohttp.ClientSession() as http:
        health = EngineHealth(slow_seconds=0.1)
        limits = {"probe_seconds": PROBE, "probe_pause": 0.05, "control_timeout": CONTROL}
        pool = EnginePool(handles, routes, http, health=health, needs_model=needs_model, **limits)  # type: ignore[arg-type]
        await pool.start(reads_model=False)
        await pool.attach(NoWeights(), 0, asyncio.Lock())  # type: ignore[arg-type]
        watcher = asyncio.create_task(pool.watch())
        try:
            async with asyncio.timeout(30):
                yield pool, routes.engines
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            await pool.close()


async def until(condition: object) -> None:
    while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - other tasks are waited for
        await asyncio.sleep(0.02)


async def test_silent_engines_are_replaced_at_the_same_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "swerl_trainer")
    servers = [Server(), Server(), Server()]
    async with watched(*servers) as (pool, routed):
        for server in servers[:2]:
            server.delay = 60.0
        await until(lambda: [server.starts for server in servers] == [2, 2, 1])
        assert len(routed) == 1, "requests go to the engine that answers"
        for server in servers[:2]:
            server.starting.set()
        await until(lambda: pool.replaced == 2)
        assert len(routed) == 3
    assert Counter(filter(None, map(event_reason, caplog.records))) == {"EngineLost": 2, "EngineReplaced": 2}


@pytest.mark.parametrize("needs_model", [True, False])
async def test_engines_read_the_model_where_the_trainer_does_not_send_all_of_it(needs_model: bool) -> None:
    server = Server()
    server.starting.set()
    async with watched(server, needs_model=needs_model) as (pool, _):
        server.delay = 60.0
        await until(lambda: pool.replaced == 1)
        assert server.reads_model == [needs_model, needs_model], "at the start after a resume, and at the replacement"


async def test_engine_starts_when_its_pod_has_joined() -> None:
    servers = [Server(), Server()]
    room = [asyncio.Event() for _ in servers]

    async def joined(engines: int) -> None:
        await room[engines - 1].wait()

    async with aiohttp.ClientSession() as http:
        pool = EnginePool(list(servers), Routes(), http)  # type: ignore[arg-type]
        start = asyncio.create_task(pool.start(joined))
        room[0].set()
        async with asyncio.timeout(30):
            await until(lambda: servers[0].starts == 1)
            await asyncio.sleep(0.1)
            assert servers[1].starts == 0 and not start.done()
            room[1].set()
            await start
        await pool.close()
    assert servers[1].starts == 1


async def test_engine_that_two_calls_retire_at_once_is_replaced_once() -> None:
    servers = [Server(), Server()]
    servers[0].starting.set()
    async with watched(*servers) as (pool, routed):
        client = pool.clients()[0]
        await asyncio.gather(pool._retire(client), pool._retire(client))
        await until(lambda: pool.replaced == 1)
        assert (servers[0].starts, len(routed)) == (2, 2)


@pytest.mark.parametrize("fault", [TimeoutError(), aiohttp.ClientConnectionError(), EngineCallError("refused")])
@pytest.mark.parametrize(("call", "starts"), [("remove", 2), ("add", 3)])
async def test_engine_is_replaced_although_a_call_of_the_router_fails(call: str, starts: int, fault: Exception) -> None:
    server = Server()
    server.starting.set()
    async with watched(server) as (pool, routed):
        pool.router.faults = {call: fault}  # type: ignore[attr-defined]
        server.delay = 60.0
        await until(lambda: pool.replaced == 1)
        assert (server.starts, routed) == (starts, {pool.clients()[0].url})


async def test_engine_that_is_paused_for_new_weights_is_not_probed() -> None:
    server = Server()
    async with watched(server) as (pool, _):
        client = pool.clients()[0]
        await client.pause("retract")
        server.delay = 60.0
        await asyncio.sleep(4 * PROBE)
        assert server.starts == 1
        await client.resume()
        await until(lambda: server.starts == 2)


@pytest.mark.parametrize("call", ["pause_generation", "begin_weight_update", "continue_generation"])
async def test_engine_that_freezes_in_a_weight_update_is_replaced_while_the_others_go_on(call: str) -> None:
    servers = [Server(), Server()]
    async with watched(*servers) as (pool, routed):
        frozen, other = pool.clients()
        servers[0].freeze(call)
        async with asyncio.timeout(5 * CONTROL):
            await pool.update_weights(1)
        assert servers[0].calls[-1] == call, "no further call waits for an engine that is frozen"
        assert routed == {other.url}
        assert (servers[1].calls[-1], other.paused) == ("continue_generation", False)
        servers[0].starting.set()
        await until(lambda: pool.replaced == 1)
        assert servers[0].calls[-1] == "continue_generation" and len(routed) == 2 and frozen.url not in routed


async def test_only_engine_that_freezes_in_a_weight_update_is_replaced_after_it() -> None:
    server = Server()
    async with watched(server) as (pool, routed):
        server.freeze("begin_weight_update")
        await pool.update_weights(1)
        assert not routed and pool._link is None, "without an engine nothing is sent"
        server.starting.set()
        await until(lambda: pool.replaced == 1)
        assert server.calls[-1] == "continue_generation" and len(routed) == 1


async def test_slow_engine_gets_no_requests_until_it_recovers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "swerl_trainer")
    servers = [Server(), Server()]
    async with watched(*servers) as (pool, routed):
        slow = pool.clients()[0].url
        servers[0].delay = PROBE / 2
        await until(lambda: slow not in routed)
        assert (pool.slow, len(routed)) == ({0}, 1)
        servers[0].delay = 0.0
        await until(lambda: slow in routed)
        assert not pool.slow
    assert list(filter(None, map(event_reason, caplog.records))) == ["EngineSlow", "EngineRecovered"]


async def test_slow_engine_gets_requests_when_no_other_is_left() -> None:
    servers = [Server(), Server()]
    async with watched(*servers) as (pool, routed):
        slow, other = pool.clients()
        servers[0].delay = PROBE / 2
        await until(lambda: slow.url not in routed)
        await pool._retire(other)
        assert routed == {slow.url}
