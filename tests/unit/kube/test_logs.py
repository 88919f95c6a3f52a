"""Lines of a log have the ids of what they concern."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from swerl_kube.logs import LogSettings, log_ids

logger = logging.getLogger("test.logs")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was afterwards."""
    found = logging.getLogger()
    handlers, level = [*found.handlers], found.level
    yield found
    found.handlers, found.level = handlers, level


@pytest.fixture
def lines(root: logging.Logger) -> io.StringIO:
    """What a process logs in JSON."""
    stream = io.StringIO()
    LogSettings("json", {"job": "demo"}).configure(stream)
    return stream


def parsed(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def test_ids_of_inner_blocks_are_added_and_end_with_them(lines: io.StringIO) -> None:
    with log_ids(step=3):
        with log_ids(episode="g1/0"):
            logger.info("inside %d", 2)
        logger.warning("outside")
    logger.info("after")
    inner, outer, after = parsed(lines)
    assert (inner["job"], inner["step"], inner["episode"], inner["message"]) == ("demo", 3, "g1/0", "inside 2")
    assert outer["step"] == 3 and "episode" not in outer and outer["level"] == "warning"
    assert "step" not in after and after["job"] == "demo"


async def test_tasks_keep_the_ids_of_their_start(lines: io.StringIO) -> None:
    async def episode(name: str) -> None:
        with log_ids(episode=name):
            await asyncio.sleep(0)
            logger.info("of %s", name)

    with log_ids(step=1):
        tasks = [asyncio.create_task(episode(name)) for name in ("a", "b")]
    with log_ids(step=2):
        await asyncio.gather(*tasks)
    assert [(line["step"], line["episode"], line["message"]) for line in parsed(lines)] == [
        (1, "a", "of a"),
        (1, "b", "of b"),
    ]


def test_error_stays_on_one_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logger.exception("failed")
    (line,) = parsed(lines)
    assert "ValueError: first\nsecond" in line["error"] and line["message"] == "failed"


def test_line_that_becomes_an_event_has_its_reason(lines: io.StringIO) -> None:
    logger.warning("engine 2 is replaced", extra={"event_reason": "EngineReplaced"})
    logger.warning("another line")
    assert [line.get("event") for line in parsed(lines)] == ["EngineReplaced", None]


def test_second_configuration_replaces_the_first(root: logging.Logger, lines: io.StringIO) -> None:
    text = io.StringIO()
    LogSettings().configure(text, "WARNING")
    logger.info("too low")
    logger.warning("once")
    assert lines.getvalue() == "" and text.getvalue().endswith("WARNING test.logs: once\n")
    assert len(text.getvalue().splitlines()) == 1
