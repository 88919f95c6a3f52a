"""Long waits report their cause, and each new one."""

from __future__ import annotations

import asyncio
import logging

import pytest
from swerl_agent.sandbox import waits

from .conftest import until


async def test_each_cause_of_a_long_wait_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    causes = ["g waits: Unschedulable: no node"] * 3 + ["g waits: ContainerCreating"] * 100
    with caplog.at_level(logging.DEBUG, logger=waits.logger.name):
        async with waits.reported(lambda: causes.pop(0), after=0.1, interval=0.02):
            await until(lambda: len(caplog.messages) == 2)
            await asyncio.sleep(0.1)
    assert caplog.messages == ["g waits: Unschedulable: no node", "g waits: ContainerCreating"]


async def test_short_wait_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger=waits.logger.name):
        async with waits.reported(lambda: "cause", after=0.1):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
    assert not caplog.messages
