"""A checkpoint for which the volume has no room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_trainer.megatron.errors import TrainerError

from tests.full_disk import files_end_at

if TYPE_CHECKING:
    from .conftest import MakeConfig, Start


def test_checkpoint_that_was_not_written_names_folder_and_room(
    make_config: MakeConfig, start: Start, tmp_path: Path
) -> None:
    trainer = start(make_config())
    with files_end_at(4096), pytest.raises(TrainerError, match=r"checkpoint was not written, with \d+ MiB free: "):
        trainer.save(str(tmp_path / "checkpoint"))
