"""Output of the patch's choice: no parser ends a grading, and no log takes the time of those that wait."""

from __future__ import annotations

import asyncio
import math
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swerl_agent.grading import Verdict
from swerl_agent.grading.eval_script import END, EXIT_CODE, START
from swerl_agent.grading.framing import Report
from swerl_agent.grading.log_reader import LogReader, Unreadable
from swerl_agent.grading.verdict_rules import outcomes, verdict_of
from swerl_agent.tasks.swebench_library import library

from .graded import A, task

PARSERS = sorted(library()[1].PARSER_REGISTRY)
LOG_WORDS = (
    "ERROR:", "FAIL:", "PASSED", "FAILED", "ERROR", "ok", "FAIL", "SKIPPED", " ... ", " - ", "::", ":", "[", "]",
    "(", ")", "✓", "✕", "PASS", "--- PASS:", "{", "}", '"', "not ok 1 -", "ok 1", "# SKIP", "test_a (m.C)", A, "\x00",
    "Testing ", "100%", "1)", "0 ms", "\x1b[31m", "<", ">", "%", "\\", "test", "F", ".", "1", "-1", "\r", "\t", " ",
)  # fmt: skip
OUTPUT = st.lists(st.lists(st.sampled_from(LOG_WORDS) | st.text(max_size=3), max_size=5).map("".join), max_size=6)


def report(*lines: str) -> Report:
    text = "\n".join([START, *lines, END, f"{EXIT_CODE}: 0", ""]).encode("utf-8", "surrogatepass")
    return Report("eval", 0, 1.0, len(text), text, ())


@pytest.mark.parametrize("parser", PARSERS)
@given(lines=OUTPUT)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_output_breaks_a_verdict(parser: str, lines: list[str]) -> None:
    row = task(eval_script="run", log_parser=parser)
    assert verdict_of(row, report(*lines), 0).status in ("resolved", "unresolved")
    assert outcomes(row, report(*lines), [A])[A] in ("passed", "failed", "absent")


@pytest.mark.parametrize("line", ["ERROR:", "FAIL:"])
def test_parser_that_raises_is_named(line: str) -> None:
    verdict = verdict_of(task(eval_script="run", log_parser="parse_log_django"), report(line), 0)
    assert verdict.status == "unresolved"
    assert "cannot be read by parse_log_django: IndexError" in verdict.detail


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert Verdict("unresolved", detail="git: \x1b[2J\x07gone\n\x9b1m").detail == "git: ?[2J?gone\n?1m"


def test_million_short_lines_are_read_in_seconds() -> None:
    started = time.process_time()
    verdict = verdict_of(task(eval_script="run"), report(*["x"] * 500_000), 0)
    assert verdict.status == "unresolved"
    assert time.process_time() - started < 10


async def test_slow_or_killed_parser_is_unreadable_and_the_next_works() -> None:
    reader = LogReader(seconds=2)
    try:
        assert await reader.call(math.sqrt, 4) == 2
        with pytest.raises(Unreadable, match="within 2 s"):
            await reader.call(time.sleep, 60)
        with pytest.raises(Unreadable, match="GiB"):
            await reader.call(os._exit, 1)
        with pytest.raises(Unreadable, match="GiB"):
            await reader.call(bytes, 8 << 30)  # a MemoryError
        with pytest.raises(ValueError):
            await reader.call(math.sqrt, -1)
        assert await asyncio.gather(*(reader.call(math.sqrt, 4) for _ in range(5))) == [2] * 5
    finally:
        await reader.close()
