"""The ownership of a job's folder on the output volume.

Guarantees:
* The folder belongs to the one SweRLJob object that its file `job.json` names. That file is written before any other.
* A folder of a deleted job of the same name is moved aside whole, by one rename, to `<job>.<first 8 characters of its
  uid>`. Nothing of it is lost or read.
* The folder of a job of another namespace stays unchanged.
* After a crash at any point, the next `take_ownership` completes the work.
* The folder of an evaluation of this name becomes the job's, with its content.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from swerl_agent.storage import write_atomic
from swerl_api import names
from swerl_trainer.checkpoints import fsync_path
from swerl_trainer.job import Job, JobError

logger = logging.getLogger(__name__)

OWNER_FILE = "job.json"
UID_LENGTH = 8  # characters of the uid in the name of a folder that was moved aside
UNKNOWN = "unknown"  # in their place where no file names the owner
JOB_ENTRIES = (
    names.CHECKPOINTS_FOLDER,
    names.EXPORTS_FOLDER,
    "metrics.jsonl",
    "artifacts",
    "tensorboard",
)  # entries that no evaluation writes


@dataclass(frozen=True)
class FolderOwner:
    """The SweRLJob object that a folder belongs to."""

    namespace: str
    uid: str


def take_ownership(job: Job) -> None:
    """Record the job as the owner of its folder, before anything in it is read or written.

    Raises JobError when the folder cannot be the job's, OSError when the volume refuses.
    """
    folder, owner = job.folder, FolderOwner(job.namespace, job.uid)
    if job.name == names.MODELS_FOLDER:
        raise JobError(f"a SweRLJob cannot be named {job.name}: that folder of its volume is for downloads; rename it")
    _check_writable(folder if folder.exists() else folder.parent)
    recorded = _recorded_owner(folder)
    if recorded == owner:
        return
    if recorded is not None and recorded.namespace != owner.namespace:
        raise JobError(
            f"{folder} belongs to the SweRLJob {job.name} of namespace {recorded.namespace}, which has the same volume:"
            " give this job another name or another checkpoint.volume, or move the folder"
        )
    if recorded is not None or any((folder / name).exists() for name in (OWNER_FILE, *JOB_ENTRIES)):
        _move_aside(folder, recorded.uid if recorded else "")
    write_atomic({folder / OWNER_FILE: [f"{json.dumps(asdict(owner))}\n".encode()]})
    fsync_path(folder)
    fsync_path(folder.parent)


def _check_writable(folder: Path) -> None:
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        owner = folder.stat().st_uid
        raise JobError(
            f"user {os.geteuid()} cannot write to {folder} of checkpoint.volume, which belongs to user {owner}: set"
            f" trainer.runAsUser: {owner}, or change the owner of the folder and all it holds"
        )


def _recorded_owner(folder: Path) -> FolderOwner | None:
    """The owner that the folder's file names, None where the file is missing or invalid."""
    try:
        data = json.loads((folder / OWNER_FILE).read_text())
        return FolderOwner(str(data["namespace"]), str(data["uid"]))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def _move_aside(folder: Path, uid: str) -> None:
    aside = next(path for path in _free_names(folder, uid) if not path.exists())
    folder.rename(aside)
    fsync_path(folder.parent)
    logger.warning(
        "%s belonged to an earlier SweRLJob of this name (uid %s): moved to %s; this job starts from its model",
        *(folder, uid or UNKNOWN, aside),
    )


def _free_names(folder: Path, uid: str) -> Iterator[Path]:
    """Names for a folder that is moved aside, in order of preference; no job's name has a dot."""
    first = folder.with_name(f"{folder.name}.{uid[:UID_LENGTH] or UNKNOWN}")
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in count(2))
