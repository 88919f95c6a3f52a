"""Sandboxes by node and state on a job's page, from the file of its driver."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.console.sandboxes import FRESH_SECONDS
from swerl_agent.sandbox.by_node import MOST_NODES

from .artifacts import write_evaluation, write_job
from .conftest import OpenConsole, shown
from .test_hostile import ATTACK, Elements

COUNTS = {
    "by_node": {"node-1": {"ready": 12, "starting": 1}, "node-2": {"ready": 3, "terminating": 2}},
    "without_node": {"pending": 40, "waiting": 5},
    "other_nodes": 7,
    "on_other_nodes": {"ready": 1234},
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    write_job(tmp_path / "folder" / "demo", steps=1, groups=1, size=1)
    return tmp_path / "folder" / "demo"


def report(job: Path, *, age: float = 0.0, **changed: Any) -> None:
    """The driver's file, so many seconds old."""
    (job / "sandboxes.json").write_text(json.dumps({"time": time.time() - age, **COUNTS, **changed}))


async def test_sandboxes_by_node_and_state(open_console: OpenConsole, job: Path) -> None:
    report(job, age=3)
    page_text = shown(await (await open_console()).page("/run", path="demo"))
    assert "Sandboxes 1,297 sandboxes, reported 3 s ago" in page_text
    assert "Node pending waiting starting ready terminating terminated" in page_text
    assert "node-1 – – 1 12 – – node-2 – – – 3 2 –" in page_text
    assert "7 other nodes – – – 1,234 – – no node yet 40 5 – – – – all 40 5 1 1,249 2 0" in page_text


async def test_job_without_sandboxes_at_the_moment(open_console: OpenConsole, job: Path) -> None:
    report(job, age=-2, by_node={}, without_node={}, other_nodes=0, on_other_nodes={})
    page_text = shown(await (await open_console()).page("/run", path="demo"))
    assert "0 sandboxes, reported 0 s ago" in page_text and "terminating" not in page_text


@pytest.mark.parametrize("age", [FRESH_SECONDS + 5, 1e9, -1e9, -1e300])
async def test_old_report_is_not_shown_as_the_present(open_console: OpenConsole, job: Path, age: float) -> None:
    report(job, age=age)
    page_text = shown(await (await open_console()).page("/run", path="demo"))
    assert "The job does not run, or no longer reports its sandboxes." in page_text and "node-1" not in page_text


async def test_job_without_a_report_says_so(open_console: OpenConsole, job: Path) -> None:
    write_evaluation(job.parent / "eval")
    console = await open_console()
    assert "None reported: the job does not run" in shown(await console.page("/run", path="demo"))
    assert "Sandboxes" not in await console.page("/run", path="eval")


async def test_names_of_nodes_are_shown_as_text(open_console: OpenConsole, job: Path) -> None:
    report(job, by_node={ATTACK: {"ready": 1, ATTACK: 2}, "\x1b[2J\u202e\ud800": {"ready": 1}})
    page = await (await open_console()).page("/run", path="demo")
    assert Elements(page).dangerous == [] and "&lt;script&gt;" in page
    assert "␛[2J⟨U+202E⟩⟨U+D800⟩" in page


@pytest.mark.parametrize("name", ["<" * 300, "\u202e" * 300])
async def test_page_of_many_nodes_stays_small(open_console: OpenConsole, job: Path, name: str) -> None:
    nodes = {f"{number}{name}": dict.fromkeys(COUNTS["on_other_nodes"], 1 << 61) for number in range(MOST_NODES + 50)}
    (job / "sandboxes.json").write_text(
        json.dumps({"time": time.time(), **COUNTS, "by_node": nodes}, ensure_ascii=False)
    )
    console = await open_console()
    began = time.process_time()
    await console.page("/run", path="demo")  # within the limit of a page
    assert time.process_time() - began < 0.2


VALUES = [None, 7, "x", [1], {"a": 1}, {"node-1": 3}, {"node-1": {"ready": "x"}}, {"n": {"ready": -1e999}}, 1e999]


@pytest.mark.parametrize("value", VALUES)
async def test_any_content_gives_a_page(open_console: OpenConsole, job: Path, value: object) -> None:
    console = await open_console()
    for content in ({"time": time.time(), **dict.fromkeys(COUNTS, value)}, {**COUNTS, "time": value}, value):
        (job / "sandboxes.json").write_text(json.dumps(content))
        assert "Sandboxes" in await console.page("/run", path="demo")


async def test_huge_file_is_not_read(open_console: OpenConsole, job: Path) -> None:
    report(job, padding="x" * (1 << 20))
    assert "None reported" in await (await open_console()).page("/run", path="demo")
