"""Curves in a terminal, comparisons of runs, and copies of exported weights."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from swerl_agent.evaluation.comparison import compare
from swerl_agent.jobs import JobCommandError
from swerl_agent.jobs.export import copy_export
from swerl_agent.jobs.logs import LONGEST_LINE, first_error, split_lines
from swerl_agent.jobs.output import JobOutput
from swerl_agent.jobs.plot import plot


def test_curve_rises_from_its_lower_to_its_upper_bound() -> None:
    lines = plot([(step, step / 2) for step in range(1, 41)], width=20, height=3)
    assert lines[0].startswith(" 20 ┤") and lines[2].startswith("0.5 ┤")
    assert lines[0][-1] != "⠀" and lines[2][5] != "⠀" and lines[-1].split() == ["1", "40"]


def test_points_far_apart_are_connected() -> None:
    [top, bottom, _] = plot([(0, 1.0), (100, 1.0)], width=8, height=2)
    assert len(set(top.partition("┤")[2] + bottom.partition("┤")[2])) <= 3  # one full row and blanks
    assert plot([]) == ["(no values)"]


def test_comparison_has_an_interval_over_shared_tasks() -> None:
    one = {f"t{number}": (0, 4) for number in range(60)} | {"only": (1, 1), "lost": (0, 0)}
    other = {f"t{number}": (number % 3, 4) for number in range(60)} | {"lost": (1, 1)}
    found = compare(one, other)
    assert (found.shared, found.better, found.worse) == (60, 40, 0)
    assert found.mean == pytest.approx(0.25) and 0 < found.low < found.mean < found.high
    assert found.is_significant and found.tasks[0].change == 0.5 and found.tasks[-1].change is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_shared_tasks_prove_nothing(count: int) -> None:
    found = compare({f"t{n}": (0, 1) for n in range(count)}, {f"t{n}": (1, 1) for n in range(count)})
    assert (found.mean, found.shared, found.is_significant) == (float(count > 0), count, False)


class Folder(JobOutput):
    """A job's folder on this machine: what its scripts would print."""

    async def stream(self, script: str, *arguments: str) -> AsyncIterator[bytes]:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, "sh", *arguments, cwd=self.folder, stdout=asyncio.subprocess.PIPE
        )
        content, _ = await process.communicate()
        for start in range(0, len(content), 1000):
            yield content[start : start + 1000]


def folder(path: Path) -> Folder:
    return Folder(client=None, namespace="n", pod="p", container="c", folder=str(path), live=False)


async def test_newest_export_is_copied_whole(tmp_path: Path) -> None:
    for step in (20, 100):
        (tmp_path / f"job/exports/step-{step:07d}/inner").mkdir(parents=True)
        (tmp_path / f"job/exports/step-{step:07d}/inner/weights").write_bytes(bytes([step]) * 100_000)
    output = folder(tmp_path / "job")
    assert await copy_export(output, tmp_path / "copy", None) == "step-0000100"
    assert (tmp_path / "copy/inner/weights").read_bytes() == bytes([100]) * 100_000
    assert await copy_export(output, tmp_path / "early", 20) == "step-0000020"
    with pytest.raises(JobCommandError, match="exists"):
        await copy_export(output, tmp_path / "copy", None)
    with pytest.raises(JobCommandError, match="no export of step 7; there are exports of step-0000020"):
        await copy_export(output, tmp_path / "none", 7)


async def test_job_without_exports_says_which_field_makes_them(tmp_path: Path) -> None:
    with pytest.raises(JobCommandError, match=r"set checkpoint\.export"):
        await copy_export(folder(tmp_path), tmp_path / "copy", None)


async def test_member_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    class Hostile(Folder):
        async def stream(self, script: str, *arguments: str) -> AsyncIterator[bytes]:
            if script.startswith("ls"):
                yield b"step-0000001\n"
                return
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w") as archive:
                archive.addfile(tarfile.TarInfo("../outside"))
            yield content.getvalue()

    output = Hostile(client=None, namespace="n", pod="p", container="c", folder=str(tmp_path), live=False)
    with pytest.raises(tarfile.OutsideDestinationError):
        await copy_export(output, tmp_path / "copies/copy", None)
    assert not (tmp_path / "copies/copy").exists() and not (tmp_path / "copies/outside").exists()


async def test_error_of_one_log_ends_the_others_as_itself() -> None:
    async def read() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            raise ExceptionGroup("files", [JobCommandError("no log yet")])

    with pytest.raises(JobCommandError, match="no log yet"):
        await first_error(read())


async def test_lines_are_whole_whatever_the_chunks() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"one\ntw", b"o\r\n", b"x" * (LONGEST_LINE + 1), b"y\nlast"):
            yield chunk

    lines = [line async for line in split_lines(chunks())]
    assert lines == ["one", "two", "x" * LONGEST_LINE, "xy", "last"]
