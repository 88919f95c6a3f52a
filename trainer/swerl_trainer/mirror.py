"""Copies of a job's checkpoints or exports in object storage, through fsspec.

Guarantees: a copy counts only when all of it is there, because its marker is uploaded last and removed first; a copy
that is fetched appears on the volume complete or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any

import fsspec
from swerl_trainer.checkpoints import MARKER
from swerl_trainer.events import event
from swerl_trainer.job import Job, JobError

logger = logging.getLogger(__name__)

_FETCHING = ".fetching-"


def mirror_of(job: Job, folder: str) -> Mirror | None:
    """The copies of `folder` of the job; no other job, of whatever name, has the same."""
    url = job.spec.checkpoint.mirror
    return Mirror(f"{url.rstrip('/')}/{job.name}/{job.uid}/{folder}") if url else None


class Mirror:
    """The folder `url` (s3://, gs://, or any that fsspec knows); raises JobError when it cannot be opened."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._system: Any
            self._system, self._root = fsspec.url_to_fs(url)
        except (ImportError, ValueError) as error:
            protocol = url.partition("://")[0]
            raise JobError(
                f"checkpoint.mirror {url}: {error}; install the fsspec package of {protocol}:// in the trainer image "
                "(s3fs for s3://, gcsfs for gs://, adlfs for az://)"
            ) from error

    def names(self) -> list[str]:
        """Complete copies, oldest first."""
        found = self._system.glob(f"{self._root}/*/{MARKER}")
        return sorted(str(path).rsplit("/", 2)[1] for path in found)

    async def copy(self, folder: Path, *, keep_last: int) -> None:
        """`push` in a thread; a failure is logged, because the volume still has the folder."""
        try:
            await asyncio.to_thread(self.push, folder, keep_last=keep_last)
        except Exception as error:  # each system has its own classes
            text = "%s was not copied to %s, and training continues: %r"
            logger.error(text, folder, self.url, error, extra=event("MirrorFailed"))

    def push(self, folder: Path, *, keep_last: int) -> None:
        """Copy `folder`; remove copies older than the newest `keep_last`, and later ones, which the job abandoned."""
        target = f"{self._root}/{folder.name}"
        self._remove(folder.name)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
        self._system.makedirs(target, exist_ok=True)
        self._system.put([str(path) for path in files], [f"{target}/{path.relative_to(folder)}" for path in files])
        self._system.pipe_file(f"{target}/{MARKER}", folder.name.encode())
        copies = self.names()
        reached = [name for name in copies if name <= folder.name]
        for obsolete in set(copies) - set(reached[-keep_last:]):
            self._remove(obsolete)

    def fetch(self, name: str, root: Path) -> None:
        """Copy `name` into the folder `root`, in place of an incomplete one; what an earlier call left is removed."""
        building, source = root / f"{_FETCHING}{name}", f"{self._root}/{name}"
        for incomplete in (*root.glob(f"{_FETCHING}*"), root / name):
            shutil.rmtree(incomplete, ignore_errors=True)
        building.mkdir(parents=True)
        for path in self._system.find(source):
            local = building / str(path).removeprefix(f"{source}/")
            local.parent.mkdir(parents=True, exist_ok=True)
            self._system.get_file(path, str(local))
        building.rename(root / name)
        logger.info("fetched %s/%s", self.url, name)

    def _remove(self, name: str) -> None:
        folder = f"{self._root}/{name}"
        if self._system.exists(f"{folder}/{MARKER}"):
            self._system.rm_file(f"{folder}/{MARKER}")
        if self._system.exists(folder):
            self._system.rm(folder, recursive=True)
