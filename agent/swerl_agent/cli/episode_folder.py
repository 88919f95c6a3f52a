"""Folders of episodes that commands read: those of this machine, and copies of what a job has on its volume."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swerl_agent.grading import record_path
from swerl_agent.jobs import JobCommandError, find_job
from swerl_agent.jobs.export import copy_files
from swerl_agent.jobs.faults import DNS_LABEL
from swerl_agent.jobs.output import JobOutput, job_output

from .command import Options
from .options import open_client

if TYPE_CHECKING:
    import sqlite3

META = "meta.json"  # the file of an episode from which it is listed
ARTIFACTS = "artifacts"  # in the folder of a job


def require_folder(folder: Path) -> None:
    """Raises UsageError where there is no folder."""
    if not folder.is_dir():
        raise click.UsageError(f"{folder} is not a folder; name that of a job or an evaluation, or a SweRLJob")


@contextmanager
def indexed(folder: Path) -> Iterator[sqlite3.Connection]:
    """An index of all episodes below `folder`, for queries; it is deleted afterwards. Raises UsageError."""
    from swerl_agent.console import EpisodeIndex  # needs packages that other commands do not

    require_folder(folder)
    with tempfile.TemporaryDirectory() as cache:
        index = EpisodeIndex(folder, Path(cache) / "index.sqlite")
        index.scan()
        with index.read() as database:
            yield database


@asynccontextmanager
async def episode_files(options: Options, place: Path, pattern: str = "*") -> AsyncIterator[Path]:
    """`place` where this machine has it, else a copy of its files of the job whose name it begins with.

    Only files whose name matches `pattern` are copied; the copy is deleted afterwards. Raises JobCommandError where
    the cluster has no such job, or the job no such place.
    """
    job, *rest = place.parts or ("",)
    if place.exists() or place.is_absolute() or ".." in rest or not DNS_LABEL.fullmatch(job):
        yield place
        return
    with tempfile.TemporaryDirectory() as folder:
        async with _output_of(options, place, job) as output:
            copied, inside = Path(folder) / job, "/".join(rest)
            await copy_files(output, inside or ARTIFACTS, pattern, copied)
            found = copied / inside
            if not found.exists():
                raise JobCommandError(f"{output.folder} has no {inside}; `swerl trajectories ls {job}` prints paths")
        yield found


@asynccontextmanager
async def episode_grading(options: Options, place: Path) -> AsyncIterator[Path]:
    """As `episode_files`, of one episode with the record of its grading."""
    async with episode_files(options, place) as found:
        if found != place:
            job, *rest = record_path(place).parts
            async with _output_of(options, place, job) as output:
                content = await output.read('cat "$1" 2>/dev/null || true', "/".join(rest))
            record_path(found).parent.mkdir(exist_ok=True)
            record_path(found).write_bytes(content)
        yield found


@asynccontextmanager
async def _output_of(options: Options, place: Path, name: str) -> AsyncIterator[JobOutput]:
    async with open_client(options) as client:
        try:
            job = await find_job(client, options.namespace or client.namespace, name)
        except JobCommandError as error:
            raise JobCommandError(f"{place} is not on this machine, and {error}") from error
        async with job_output(client, job) as output:
            yield output
