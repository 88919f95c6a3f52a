"""How the components of an attempt follow from its spec."""

from __future__ import annotations

import time
from collections.abc import Callable

import aiohttp
import pytest
from swerl_trainer.driver.components import AttemptComponents
from swerl_trainer.job import Job
from swerl_trainer.rollout.operations import RolloutWorker


def no_worker(router: str, number: int, judge: str | None) -> RolloutWorker:
    raise AssertionError("nothing is started")


@pytest.mark.parametrize(("seconds", "pause"), [(8, 8.0), (60, 30.0)])
async def test_engines_are_probed_as_often_as_a_probe_may_take(
    make_job: Callable[..., Job], http: aiohttp.ClientSession, seconds: int, pause: float
) -> None:
    job = make_job(rollout={"probeSeconds": seconds})
    pool = AttemptComponents(job, http, time.monotonic(), make_worker=no_worker)._engines()
    assert (pool._probe_seconds, pool._probe_pause) == (seconds, pause)


@pytest.mark.parametrize("lora", [None, {"rank": 8}])
async def test_engines_of_a_job_with_adapters_read_the_model(
    make_job: Callable[..., Job], http: aiohttp.ClientSession, lora: dict[str, int] | None
) -> None:
    job = make_job(model={"lora": lora})
    pool = AttemptComponents(job, http, time.monotonic(), make_worker=no_worker)._engines()
    assert pool._needs_model is (lora is not None)


async def test_experts_are_compared_as_engines_divide_them(
    make_job: Callable[..., Job], http: aiohttp.ClientSession
) -> None:
    job = make_job(rollout={"engineArgs": {"ep-size": 2}})
    pool = AttemptComponents(job, http, time.monotonic(), make_worker=no_worker)._engines()
    assert pool.check.expert_ranks == 2
