"""Long waits report their cause, and each new one."""

from __future__ import annotations

import asyncio
import logging

import pytest
from swerl_agent.sandbox import waits


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "FIRST_REPORT", 0.1)
    monkeypatch.setattr(waits, "NEXT_LOOK", 0.02)


async def test_each_cause_of_a_long_wait_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    causes = ["g waits: Unschedulable: no node"] * 3 + ["g waits: ContainerCreating"] * 100
    with caplog.at_level(logging.DEBUG, logger=waits.logger.name):
        async with waits.reported(lambda: causes.pop(0)):
            await asyncio.sleep(0.4)
    assert caplog.messages == ["g waits: Unschedulable: no node", "g waits: ContainerCreating"]


async def test_short_wait_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger=waits.logger.name):
        async with waits.reported(lambda: "cause"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
    assert not caplog.messages
