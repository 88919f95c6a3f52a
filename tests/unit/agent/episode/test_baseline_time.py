"""The patch does not depend on when a file changed."""

from __future__ import annotations

import time
from pathlib import Path

from .test_baseline import patch_after


def test_change_in_the_second_of_its_file_and_the_baseline_is_in_the_patch(repository: Path) -> None:
    time.sleep(1 - time.time() % 1)  # the rest happens within a second, unless the machine is busy
    (repository / "kit.py").write_text("answer = 41\n")
    assert "+answer = 42\n" in patch_after(repository, "echo answer = 42 > kit.py; sleep 1.1").text
