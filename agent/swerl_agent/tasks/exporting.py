"""The assets of an evaluation set: which tasks, which images to pull, and the tasks themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .importing import Entry
from .writing import RowLayout, write_atomic, write_entries

IDS = "instance_ids.txt"
IMAGES = "docker_images.txt"


def export_assets(folder: Path, name: str, entries: Sequence[Entry], layout: RowLayout) -> list[Path]:
    """Write ids, images (each once) and `<name>_eval.jsonl` into `folder`; the files. Raises TaskError."""
    ids = [entry.task.instance_id for entry in entries]
    images = list(dict.fromkeys(entry.task.image for entry in entries))
    lists = {folder / IDS: ids, folder / IMAGES: images}
    written = write_entries(folder / f"{name}_eval.jsonl", entries, layout)
    write_atomic({path: [f"{line}\n".encode() for line in lines] for path, lines in lists.items()})
    return [*lists, *written]
