"""Folders of episodes that commands read, through the console's index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import sqlite3


def require_folder(folder: Path) -> None:
    """Raises UsageError where there is no folder."""
    if not folder.is_dir():
        raise click.UsageError(f"{folder} is not a folder; name the output folder of a job or an evaluation")


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
