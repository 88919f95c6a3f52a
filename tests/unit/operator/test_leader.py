"""Leadership over a Lease of an API server that refuses now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from swerl_kube import ApiError, Forbidden, KubeError, Unavailable
from swerl_operator.leader import Leader, LeaderElectionConfig, LeadershipLost
from swerl_operator.metrics import Metrics

Body = dict[str, Any]
SHORT = LeaderElectionConfig(retry_period=0.005, failed_retry_period=0.005, standby_period=0.005)
REFUSALS: list[KubeError] = [
    Forbidden("GET lease", 403, "Forbidden", "no roles are known yet"),
    ApiError("GET lease", 401, "Unauthorized", "who are you"),
    Unavailable("GET lease: 503"),
]


class Leases:
    """One Lease; `refusals` are what its API server answers first."""

    def __init__(self) -> None:
        self.refusals: list[KubeError] = []
        self.unanswered = 0  # requests that get no answer, first
        self.lease: Body | None = None
        self.written = 0

    async def find(self, *_: object) -> Body | None:
        self._refuse()
        return self.lease

    async def create(self, resource: str, body: Body) -> Body:
        return self._write(body)

    async def replace(self, resource: str, body: Body) -> Body:
        if self.unanswered:
            self.unanswered -= 1
            await asyncio.sleep(60)
        self._refuse()
        return self._write(body)

    def _write(self, body: Body) -> Body:
        self.written += 1
        self.lease = body | {"metadata": body["metadata"] | {"resourceVersion": str(self.written)}}
        return self.lease

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
def config() -> LeaderElectionConfig:
    return SHORT


@pytest.fixture
def leader(leases: Leases, config: LeaderElectionConfig) -> Leader:
    return Leader(leases, Metrics(), "ns", "lease", "me", config)  # type: ignore[arg-type]


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not done():  # noqa: ASYNC110 - a counter is looked at
            await asyncio.sleep(0.02)


async def test_candidate_waits_for_a_server_that_refuses_it(leases: Leases, leader: Leader) -> None:
    leases.refusals = list(REFUSALS)
    await asyncio.wait_for(leader.acquire(), 20)
    assert leases.lease is not None and leases.lease["spec"]["holderIdentity"] == "me"


async def test_leader_survives_short_refusals(leases: Leases, leader: Leader) -> None:
    await leader.acquire()
    leases.refusals = list(REFUSALS)
    holding = asyncio.create_task(leader.renew_until_lost())
    await until(lambda: holding.done() or leases.written > 4)
    assert not holding.done()
    holding.cancel()


@pytest.mark.parametrize("config", [replace(SHORT, renew_deadline=0.1)])
async def test_leader_that_is_refused_for_long_stops(leases: Leases, leader: Leader) -> None:
    await leader.acquire()
    leases.refusals = [REFUSALS[0]] * 1000
    with pytest.raises(LeadershipLost, match="not renewed"):
        await asyncio.wait_for(leader.renew_until_lost(), 20)


@pytest.mark.parametrize("config", [replace(SHORT, renew_timeout=0.3)])
async def test_leader_retries_soon_without_a_response(
    leases: Leases, leader: Leader, caplog: pytest.LogCaptureFixture
) -> None:
    await leader.acquire()
    leases.unanswered = 2
    holding = asyncio.create_task(leader.renew_until_lost())
    await until(lambda: holding.done() or leases.written > 2)
    assert not holding.done()
    assert [record.levelname for record in caplog.records if "not renewed" in record.message] == ["WARNING"] * 2
    holding.cancel()


def test_third_renewal_starts_before_the_deadline_and_ends_before_a_takeover() -> None:
    config = LeaderElectionConfig()
    failed = config.renew_timeout + config.failed_retry_period
    assert config.retry_period + 2 * failed < config.renew_deadline
    assert config.renew_deadline + failed < config.lease_duration
