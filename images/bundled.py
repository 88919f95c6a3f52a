"""Bundled tasks as images: one image per task, and the demo's data, in which every task names the image just built.

Guarantees: the content key of a task's image follows from its base commit and the sandbox base, so a changed task never
uses an old image; the registry also has the image under the tag that `task.yaml` names. A repository is written only
for an image that must be built.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from images.catalogue import ROOT, Image
from tasks.catalogue import find
from tasks.repository import write_repository

SPLITS = ("train", "held_out")
IMAGE_LINE = re.compile(r"^image: (?P<name>\S+):(?P<tag>\S+)$", re.MULTILINE)
BASE_COMMIT = re.compile(r"^base_commit: (\w+)$", re.MULTILINE)


def task_folders() -> Iterator[Path]:
    """Folders of all bundled tasks, by split and name."""
    for split in SPLITS:
        yield from sorted((ROOT / "tasks" / split / "tasks").iterdir())


def task_image(task: Path, repositories: Path) -> Image:
    """Image of one bundled task; its repository is written below `repositories` when the image is built."""
    metadata = (task / "task.yaml").read_text()
    commit, named = BASE_COMMIT.search(metadata), IMAGE_LINE.search(metadata)
    if commit is None or named is None:
        raise ValueError(
            f"{task / 'task.yaml'} lacks base_commit or image; write the tasks again: python -m tasks.build"
        )
    folder = repositories / task.name
    return Image(
        name=named["name"],
        dockerfile=ROOT / "images/task/Dockerfile",
        parent="swe-rl/sandbox-base",
        inputs={"repository": folder},
        identity=commit[1],
        tags=(named["tag"],),
        prepare=lambda: write_repository(find(task.name), folder),
    )


def demo_data(directory: Path, references: dict[str, str]) -> Image:
    """The demo's data image; lays the tasks out below `directory` with the image `references` of this build."""
    for split in SPLITS:
        shutil.copytree(ROOT / "tasks" / split, directory / split)
        for metadata in (directory / split / "tasks").glob("*/task.yaml"):
            reference = references[f"swe-rl/task-{metadata.parent.name.lower()}"]
            metadata.write_text(IMAGE_LINE.sub(f"image: {reference}", metadata.read_text()))
    shutil.copy2(ROOT / "tasks" / "demonstrations.jsonl", directory / "train")
    dockerfile = ROOT / "images/demo-data/Dockerfile"
    inputs = {"tasks": directory, "model": ROOT / "tiny_model/model"}
    return Image("swe-rl/demo-data", dockerfile, "swe-rl/sandbox-base", inputs)
