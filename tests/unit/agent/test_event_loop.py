"""Our programs' event loop: uvloop's where there is one, else asyncio's."""

from __future__ import annotations

import asyncio
import sys

import pytest
import uvloop
from swerl_agent.event_loop import run
from swerl_agent.sandbox.blocking import LoopThread


async def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_uvloop_is_used_when_installed() -> None:
    assert isinstance(run(_loop()), uvloop.Loop)
    thread = LoopThread()
    try:
        assert isinstance(thread.wait(_loop()), uvloop.Loop)
    finally:
        thread.stop()


def test_asyncio_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert isinstance(run(_loop()), asyncio.SelectorEventLoop)


def test_error_of_the_coroutine_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run(fail())
