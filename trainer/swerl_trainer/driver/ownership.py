"""Whose a job's folder on the output volume is.

Guarantees: the folder belongs to the one SweRLJob object that its file `job.json` names, and has that file before
anything else; what another object of this name left there (a job that was deleted and made anew) is set aside whole by
one rename, to `<job>.<first 8 characters of its uid>`, so that nothing of it is lost and nothing of it is read; the
folder of a job of another namespace is left as it is. Whatever a crash leaves between two steps, the next `claim` does
what is left to do. The folder of an evaluation of this name becomes the job's, with all that is in it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from swerl_agent.storage import write_atomic
from swerl_api import names
from swerl_trainer.checkpoints import sync
from swerl_trainer.job import Job, JobError

logger = logging.getLogger(__name__)

OWNER_FILE = "job.json"
UID_LENGTH = 8  # characters of the uid in the name of a folder that was set aside
UNKNOWN = "unknown"  # in their place where no file says whose it was
OF_A_JOB = (names.CHECKPOINTS_FOLDER, "metrics.jsonl", "artifacts", "tensorboard")  # what no evaluation writes


@dataclass(frozen=True)
class Owner:
    """The SweRLJob object that a folder belongs to."""

    namespace: str
    uid: str


def claim(job: Job) -> None:
    """Make the job's folder its own, before anything in it is read or written; later attempts find it theirs.

    Raises JobError when the folder cannot be the job's, OSError when the volume refuses.
    """
    folder, owner = job.folder, Owner(job.namespace, job.uid)
    if job.name == names.MODELS_FOLDER:
        raise JobError(f"a SweRLJob cannot be named {job.name}: that folder of its volume is for downloads; rename it")
    found = _owner(folder)
    if found == owner:
        return
    if found is not None and found.namespace != owner.namespace:
        raise JobError(
            f"{folder} belongs to the SweRLJob {job.name} of namespace {found.namespace}, which has the same volume:"
            " give this job another name or another checkpoint.volume, or move the folder"
        )
    if found is not None or any((folder / name).exists() for name in (OWNER_FILE, *OF_A_JOB)):
        _set_aside(folder, found.uid if found else "")
    write_atomic({folder / OWNER_FILE: [f"{json.dumps(asdict(owner))}\n".encode()]})
    sync(folder)
    sync(folder.parent)


def _owner(folder: Path) -> Owner | None:
    """Whom the folder's file names, None where there is none or it cannot be understood."""
    try:
        data = json.loads((folder / OWNER_FILE).read_text())
        return Owner(str(data["namespace"]), str(data["uid"]))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def _set_aside(folder: Path, uid: str) -> None:
    aside = next(path for path in _asides(folder, uid) if not path.exists())
    folder.rename(aside)
    sync(folder.parent)
    logger.warning(
        "%s held what another SweRLJob of this name wrote (uid %s): it is now %s, and this job starts from its model",
        *(folder, uid or UNKNOWN, aside),
    )


def _asides(folder: Path, uid: str) -> Iterator[Path]:
    """Names for a folder that is set aside, the first one first; a dot is in no job's name."""
    first = folder.with_name(f"{folder.name}.{uid[:UID_LENGTH] or UNKNOWN}")
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in count(2))
