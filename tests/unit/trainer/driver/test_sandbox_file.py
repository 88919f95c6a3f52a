"""sandboxes.json of a job's folder: whole, bounded, and gone with the attempt."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from pathlib import Path

import pytest
from swerl_agent.console.sandboxes import NO_NODE, read_sandboxes
from swerl_agent.sandbox.by_node import MOST_NODES, NodeCounts
from swerl_api import SweRLJobSpec
from swerl_trainer.driver.sandbox_file import SandboxFile, bounded, report_sandboxes
from swerl_trainer.job import Job, Paths

SPEC = SweRLJobSpec.model_validate(
    {
        "model": {"source": {"configMap": {"name": "m"}}},
        "tasks": {"source": {"configMap": {"name": "t"}}},
        "trainer": {"image": "trainer"},
        "checkpoint": {"volume": {"hostPath": {"path": "/runs"}}},
    }
)
COUNTS: NodeCounts = {"node-2": {"ready": 3, "starting": 1}, "node-1": {"ready": 2}, "": {"pending": 4}}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job("demo", "n", "uid", 2, "demo-2", SPEC, Paths(output=tmp_path))
    made.folder.mkdir()
    return made


class Sandboxes:
    """Sandboxes whose counts are read; from the second reading on, `read` is set."""

    def __init__(self) -> None:
        self.readings = 0
        self.read = asyncio.Event()

    async def sandboxes_by_node(self) -> NodeCounts:
        self.readings += 1
        if self.readings > 1:
            self.read.set()
        return COUNTS


def test_console_reads_what_the_driver_wrote(job: Job) -> None:
    SandboxFile(job).write(COUNTS)
    table = read_sandboxes(job.folder / "sandboxes.json")
    assert table is not None and table.fresh and abs(table.time - time.time()) < 30
    shown = {row.name: dict(zip(table.states, row.counts, strict=True)) for row in table.rows}
    assert list(shown) == ["node-1", "node-2", NO_NODE]
    assert (shown["node-2"]["ready"], shown["node-2"]["starting"], shown[NO_NODE]["pending"]) == (3, 1, 4)
    assert sum(table.totals) == 10
    assert [path.name for path in job.folder.iterdir()] == ["sandboxes.json"]


async def test_file_is_kept_up_to_date_and_removed_at_the_end(job: Job) -> None:
    sandboxes = Sandboxes()
    task = asyncio.create_task(report_sandboxes(job, sandboxes, every=0.01))
    async with asyncio.timeout(20):
        await sandboxes.read.wait()
        assert json.loads((job.folder / "sandboxes.json").read_text())["by_node"]["node-1"] == {"ready": 2}
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert list(job.folder.iterdir()) == []


def test_late_write_leaves_no_file(job: Job) -> None:
    file = SandboxFile(job)
    file.remove()
    file.write(COUNTS)
    assert list(job.folder.iterdir()) == []


def test_many_nodes_are_one_sum() -> None:
    counts: NodeCounts = {f"node-{number:03d}": {"ready": number} for number in range(1, 1001)}
    content = bounded(counts)
    assert len(content["by_node"]) == MOST_NODES and "node-1000" in content["by_node"]
    assert content["other_nodes"] == 900 and content["on_other_nodes"] == {"ready": sum(range(1, 901))}
    assert len(json.dumps(content)) < 10_000


def test_file_that_cannot_be_written_is_logged_once(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    (job.folder / "sandboxes.json").mkdir()
    file = SandboxFile(job)
    with caplog.at_level(logging.WARNING):
        file.write(COUNTS)
        file.write(COUNTS)
        file.remove()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the console does not show the sandboxes",
        f"{job.folder / 'sandboxes.json'} cannot be removed",
    ]
