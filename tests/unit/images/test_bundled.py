"""The registry has the image of a bundled task under the reference that its task.yaml names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from images.bundled import task_folders, task_image

TASKS = list(task_folders())


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_image_is_published_as_its_task_names_it(task: Path, tmp_path: Path) -> None:
    image = task_image(task, tmp_path)
    named = yaml.safe_load((task / "task.yaml").read_text())["image"]
    assert [f"{image.name}:{tag}" for tag in image.tags] == [named]
