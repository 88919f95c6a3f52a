"""Task repositories: the on-disk format of `swebench` 5.x, one folder per task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from .rows import row_of
from .task import Task, TaskError, task_from_row

CONFIG_FILE = "sweb.yaml"
TASKS_FOLDER = "tasks"
TASK_FILE = "task.yaml"
TESTS_FILE = "tests.json"
TEXT_FILES = {
    "patch": "gold.patch",
    "test_patch": "test.patch",
    "eval_script": "eval.sh",
    "problem_statement": "problem_statement.md",
}


def read_repository(path: Path) -> list[Task]:
    """Every task under `path`/tasks; raises TaskError naming the first file that is missing or malformed."""
    return [read_task(folder) for folder in task_folders(path)]


def task_folders(path: Path) -> list[Path]:
    """Folders of the tasks under `path`, by name; raises TaskError when there is none."""
    if not path.exists():
        raise TaskError(f"{path} does not exist; name a folder of tasks or a file with rows")
    folders = path / TASKS_FOLDER
    if not folders.is_dir():
        raise TaskError(f"{path} is not a task repository: it has no tasks/ folder (and {CONFIG_FILE} next to it)")
    found = sorted(folder for folder in folders.iterdir() if folder.is_dir())
    if not found:
        raise TaskError(f"{folders} holds no task folder")
    return found


def read_task(folder: Path) -> Task:
    """The task of one folder; raises TaskError."""
    columns = task_columns(folder)
    try:
        row = row_of(columns)
    except ValueError as error:
        raise TaskError(f"{folder}: {error}") from error
    return task_from_row(row, where=str(folder), image=columns["image"].lower())


def task_columns(folder: Path) -> dict[str, Any]:
    """The columns of one folder's task, as a data set of it would have them; raises TaskError."""
    row = _yaml(folder / TASK_FILE)
    if row.get("instance_id") != folder.name:
        raise TaskError(f"{folder / TASK_FILE}: instance_id is {row.get('instance_id')!r}, its folder {folder.name!r}")
    if not isinstance(row.get("image"), str):
        raise TaskError(f"{folder / TASK_FILE}: field image is missing")
    row |= {column: _read(folder / name) for column, name in TEXT_FILES.items()}
    return row | _tests(folder / TESTS_FILE)


def _yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        raise TaskError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise TaskError(f"{path}: must hold a mapping")
    return content


def _tests(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read(path))
    except ValueError as error:
        raise TaskError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise TaskError(f"{path}: must hold an object with FAIL_TO_PASS and PASS_TO_PASS")
    return content


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:  # CRLF in patches is content
            return file.read()
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from error
