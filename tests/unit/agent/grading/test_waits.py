"""A grading whose Pod does not start says why, until it starts."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest
from swerl_agent.grading import job
from swerl_agent.grading.pods import PodState
from swerl_agent.sandbox import waits

from tests.unit.agent.sandbox.conftest import until


def pod(**status: Any) -> PodState:
    return PodState.of({"metadata": {"name": "grading-1-x"}, "status": status}, deleted=False)


UNSCHEDULABLE = pod(
    phase="Pending",
    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: no CPU"}],
)
PULLING = pod(containerStatuses=[{"name": "grading", "state": {"waiting": {"reason": "ContainerCreating"}}}])
RUNNING = pod(containerStatuses=[{"name": "grading", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}])


class SilentClient:
    """A client whose followed logs never say anything."""

    async def follow_logs(self, *names: str, **options: Any) -> Any:
        await asyncio.sleep(3600)
        yield b""


async def test_causes_of_a_wait_are_reported_until_the_pod_runs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "reported", partial(waits.reported, after=0.05, interval=0.02))
    client: Any = SilentClient()
    states: asyncio.Queue[Any] = asyncio.Queue()
    with caplog.at_level(logging.DEBUG, logger=waits.logger.name):
        outcome = asyncio.create_task(job._outcome(client, "ns", "grading-1", states))
        for number, state in enumerate((None, UNSCHEDULABLE, PULLING), start=1):
            if state:
                states.put_nowait(state)
            await until(lambda number=number: len(caplog.messages) == number)
        for state in (RUNNING, UNSCHEDULABLE):
            states.put_nowait(state)
            await asyncio.sleep(0.2)
        outcome.cancel()
        await asyncio.wait([outcome])
    assert caplog.messages == [
        "grading Job ns/grading-1 waits: it has no Pod yet",
        "grading Pod ns/grading-1-x waits: Unschedulable: 0/1 nodes: no CPU",
        "grading Pod ns/grading-1-x waits: ContainerCreating",
    ]
