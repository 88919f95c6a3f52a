"""The checkpoint that an attempt starts from.

Guarantees: a damaged checkpoint is logged with its files and skipped; none replaces one that `checkpoint.resume`
names. Checkpoints later than the starting point are moved aside; further attempts continue from what this one writes.
After a damaged copy of a mirror comes the copy before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from swerl_api import Resume
from swerl_api.names import TRAIN_RESOURCE, checkpoint_name
from swerl_trainer.checkpoints import Checkpoint, CheckpointStore, damage, set_aside
from swerl_trainer.driver.errors import DriverError
from swerl_trainer.events import event
from swerl_trainer.job import JobError
from swerl_trainer.mirror import Mirror

logger = logging.getLogger(__name__)

RESUMED = "resume_step"  # in a checkpoint's state: the step that `checkpoint.resume` named when it was written
RESOURCE_PER_CHECK = 0.4  # of the units of TRAIN_RESOURCE: a Pod reads a part or more beside its ranks

FindDamage = Callable[[Checkpoint], Awaitable[list[str]]]


async def fetched_starting_point(
    store: CheckpointStore, mirror: Mirror | None, resume: Resume, find_damage: FindDamage
) -> Checkpoint | None:
    """`starting_point` after `fetch_missing`; both run again until the newest copy that was fetched is the starting
    point, or none is newer than what the volume has."""
    while True:
        fetched = await asyncio.to_thread(fetch_missing, mirror, store, resume) if mirror else set()
        found = await starting_point(store, resume, find_damage)
        if not fetched or (found is not None and checkpoint_name(found.step) == max(fetched)):
            return found


async def starting_point(store: CheckpointStore, resume: Resume, find_damage: FindDamage) -> Checkpoint | None:
    """The newest sound checkpoint that `resume` admits, None for the job's model.

    Raises JobError when `resume` names a step whose checkpoint is missing or damaged.
    """
    if resume == "never":
        return None
    complete = await asyncio.to_thread(store.complete)
    admitted = complete
    if resume != "auto":
        admitted = [each for each in complete if each.state.get(RESUMED) == resume or each.step == resume]
        admitted.sort(key=lambda each: (each.state.get(RESUMED) == resume, each.step))
    problems = []
    for checkpoint in reversed(admitted):
        if not (damages := await find_damage(checkpoint)):
            await asyncio.to_thread(store.abandon, [each for each in complete if each.step > checkpoint.step])
            return checkpoint
        problems.append(f"{checkpoint.folder} is damaged: {'; '.join(damages)}")
        text = "skipping checkpoint of step %d: %s"
        logger.error(text, checkpoint.step, problems[-1], extra=event("CheckpointDamaged"))
    if resume == "auto":
        await asyncio.to_thread(store.abandon, complete)
        return None
    steps = ", ".join(str(each.step) for each in complete) or "none"
    raise JobError(
        f"checkpoint.resume is {resume}, but {problems[-1] if problems else f'{store.root} has no checkpoint of it'}; "
        f"complete checkpoints are of the steps: {steps}; set checkpoint.resume to another one, or to auto"
    )


def fetch_missing(mirror: Mirror, store: CheckpointStore, resume: Resume) -> set[str]:
    """Copy the newest checkpoint of `mirror` if the volume has none as new, and the one that `resume` names; the names
    of those that were copied.

    With a step, the newest may be one that the job wrote after it went back to this step. Abandoned ones stay there.
    Raises DriverError when that fails, because the mirror may have a newer checkpoint than the volume.
    """
    if resume == "never":
        return set()
    try:
        return _fetch_missing(mirror, store, resume)
    except Exception as error:  # each system has its own classes
        raise DriverError(
            f"checkpoint.mirror {mirror.url} cannot be fetched from: {error!r}; the next attempt fetches again. To "
            "start from the volume's own checkpoints, remove checkpoint.mirror; to start from the model, set "
            "checkpoint.resume to never"
        ) from error


def _fetch_missing(mirror: Mirror, store: CheckpointStore, resume: int | Literal["auto"]) -> set[str]:
    present = {checkpoint_name(each.step) for each in store.complete()}
    copies = [name for name in mirror.names() if not store.is_abandoned(name)]
    wanted = {name for name in copies[-1:] if name > max(present, default="")}
    if resume != "auto":
        wanted |= {checkpoint_name(resume)} & set(copies) - present
    for name in sorted(wanted):
        mirror.fetch(name, store.root)
    for name in wanted - {checkpoint_name(each.step) for each in store.complete()}:
        aside = set_aside(store.root / name)
        text = "skipping the copy %s of %s, which cannot be read: moved to %s"
        logger.error(text, name, mirror.url, aside, extra=event("CheckpointDamaged"))
    return wanted


async def find_damage_on_nodes(checkpoint: Checkpoint, *, ranks: int) -> list[str]:
    """What is wrong with a checkpoint's files, which the nodes of the training ranks read in parallel, as they join."""
    import ray

    shares = max(1, min(ranks, len(checkpoint.files)))
    names = sorted(checkpoint.files)
    check: Any = ray.remote(damage).options(
        num_cpus=0, resources={TRAIN_RESOURCE: RESOURCE_PER_CHECK}, scheduling_strategy="SPREAD"
    )
    parts = [{name: tuple(checkpoint.files[name]) for name in names[first::shares]} for first in range(shares)]
    results = await asyncio.gather(*(check.remote(checkpoint.folder, part) for part in parts))
    return [problem for part in results for problem in part]
