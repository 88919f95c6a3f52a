"""Groups that are complete and wait for a step, in a checkpoint.

Guarantees: `read_complete_groups` returns what `write_complete_groups` got; a file that this version cannot read is
logged, and its groups run again.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from pathlib import Path

from swerl_trainer.checkpoints import FileSum, sum_files
from swerl_trainer.rollout.group import GroupState

logger = logging.getLogger(__name__)

ROLLOUTS_FILE = "rollouts.pickle"


def write_complete_groups(folder: Path, groups: Sequence[GroupState]) -> dict[str, FileSum]:
    """Write `groups` to `folder`; the sum of the file."""
    with (folder / ROLLOUTS_FILE).open("wb") as file:
        pickle.dump(list(groups), file)
    return sum_files(folder, [ROLLOUTS_FILE])


def read_complete_groups(folder: Path) -> list[GroupState]:
    """The groups of a checkpoint."""
    try:
        groups: list[GroupState] = pickle.loads((folder / ROLLOUTS_FILE).read_bytes())
    except Exception as error:  # of any class, as its content is another version's
        logger.warning("rollouts of %s cannot be read, and run again: %r", folder, error)
        return []
    return groups
