"""Repairs become Events of the job."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from swerl_api import SweRLJobSpec
from swerl_kube import Forbidden
from swerl_trainer.driver.event_poster import QUEUE_LENGTH, posting_events
from swerl_trainer.events import event
from swerl_trainer.job import Job, Paths

SPEC = {
    "model": {"source": {"configMap": {"name": "model"}}},
    "tasks": {"source": {"configMap": {"name": "tasks"}}},
    "trainer": {"image": "t"},
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}},
}
ENGINES = logging.getLogger("swerl_trainer.engines.pool")


class Api:
    """An API server that takes Events, or refuses the first one."""

    def __init__(self, *, refuses_first: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self._arrived = asyncio.Condition()
        self._refuses_first = refuses_first

    async def create(self, resource: str, body: dict[str, Any]) -> None:
        assert resource == "events"
        if self._refuses_first:
            self._refuses_first = False
            raise Forbidden("POST /events", 403, "Forbidden", "no right to create Events")
        async with self._arrived:
            self.events.append(body)
            self._arrived.notify_all()

    async def received(self, number: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(lambda: len(self.events) >= number)
        return self.events


@pytest.fixture
def job(tmp_path: Path) -> Job:
    logging.getLogger("swerl_trainer").setLevel(logging.INFO)
    return Job("demo", "ns", "uid-1", 3, "demo-3", SweRLJobSpec.model_validate(SPEC), Paths(output=tmp_path))


async def test_marked_line_is_an_event_of_the_job_and_others_are_not(job: Job) -> None:
    api = Api()
    async with posting_events(api, job, pause=0.0):  # type: ignore[arg-type]
        ENGINES.warning("engine %d %s; starting another", 2, "is dead", extra=event("EngineLost"))
        ENGINES.warning("the volume is slow")
        ENGINES.info("engine 2 is replaced", extra=event("EngineReplaced"))
        lost, replaced = await api.received(2)
    assert (lost["type"], lost["reason"]) == ("Warning", "EngineLost")
    assert lost["message"] == "attempt 3: engine 2 is dead; starting another"
    assert (replaced["type"], replaced["reason"]) == ("Normal", "EngineReplaced")
    involved = lost["involvedObject"]
    assert (involved["kind"], involved["name"], involved["uid"]) == ("SweRLJob", "demo", "uid-1")
    assert lost["metadata"]["namespace"] == "ns" and lost["metadata"]["labels"]["swerl.dev/job"] == "demo"
    assert lost["metadata"]["name"] != replaced["metadata"]["name"]


async def test_refused_event_costs_only_itself(job: Job) -> None:
    api = Api(refuses_first=True)
    async with posting_events(api, job, pause=0.0):  # type: ignore[arg-type]
        for number in range(2):
            ENGINES.warning("engine %d is dead", number, extra=event("EngineLost"))
        (second,) = await api.received(1)
    assert "engine 1" in second["message"]


async def test_line_of_another_thread_is_posted(job: Job) -> None:
    api = Api()
    async with posting_events(api, job, pause=0.0):  # type: ignore[arg-type]
        thread = threading.Thread(target=lambda: ENGINES.warning("stalled", extra=event("RanksStalled")))
        thread.start()
        (posted,) = await api.received(1)
        thread.join()
    assert posted["reason"] == "RanksStalled"


async def test_burst_is_cut_and_nothing_is_posted_afterwards(job: Job) -> None:
    api = Api()
    async with posting_events(api, job, pause=0.0):  # type: ignore[arg-type]
        for number in range(2 * QUEUE_LENGTH):
            ENGINES.warning("engine %d is dead", number, extra=event("EngineLost"))
        await api.received(QUEUE_LENGTH)
        await asyncio.sleep(0.05)
    assert len(api.events) == QUEUE_LENGTH
    ENGINES.warning("after the attempt", extra=event("EngineLost"))
    await asyncio.sleep(0.05)
    assert len(api.events) == QUEUE_LENGTH
