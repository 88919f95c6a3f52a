"""Files of rows: JSON Lines and Parquet, alone or as a folder of them.

Guarantees: a malformed row is an error with its file, line (or row) and field, and costs no other row; a file is read
row by row. What only grading may know may lie in a file of its own, `<name>.grading.jsonl` beside `<name>.jsonl`,
joined here by instance_id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from .images import image_name
from .rows import Row, row_of
from .task import Task, TaskError, task_from_row

SUFFIXES = (".jsonl", ".parquet")
GRADING_SUFFIX = ".grading.jsonl"
GRADING_COLUMNS = ("eval_script", "patch", "test_patch", "FAIL_TO_PASS", "fail_to_pass")
QUARANTINE = "quarantine.jsonl"  # tasks not to be used; beside them, or in the output of `swerl tasks check`

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class UnreadRow:
    """One row yet to be read."""

    where: str
    read: Callable[[], Columns] = field(repr=False)  # raises TaskError
    grading: Mapping[str, Columns] = field(default_factory=dict, repr=False)  # the other half of its file, by id
    grading_path: Path | None = None  # path of that half

    def row(self, *, data_source: str = "", split: str = "") -> Row:
        """The row, whatever its shape (see `row_of`); raises TaskError naming place and field."""
        try:
            row = row_of(self.read(), data_source=data_source, split=split)
            return replace(row, columns=row.columns | self._grading_columns(row.columns.get("instance_id")))
        except TaskError:
            raise
        except ValueError as error:
            raise TaskError(str(error), self.where) from error

    def whole_row(self, *, data_source: str = "", split: str = "") -> Row:
        """The row, which must have what grading needs; raises TaskError naming the file that is missing."""
        row = self.row(data_source=data_source, split=split)
        half = "instance_id" in row.columns and not any(row.columns.get(each) for each in GRADING_COLUMNS)
        if half and self.grading_path and not self.grading:
            missing = f"the file is missing: {self.grading_path}, which holds its reference fix and tests"
            raise TaskError(f"{missing}; copy it next to this one, or import the tasks again", self.where)
        return row

    def _grading_columns(self, instance_id: Any) -> dict[str, Any]:
        if not self.grading:
            return {}
        if not isinstance(instance_id, str) or instance_id not in self.grading:
            raise ValueError(f"the {GRADING_SUFFIX} file next to it has no row for {instance_id!r}; import both again")
        return dict(self.grading[instance_id])


def task_of(row: Row, *, where: str) -> Task:
    """The task of a row; raises TaskError naming `where` and the field."""
    try:
        return task_from_row(row, where=where, image=image_name(row.columns, row.data_source))
    except TaskError:
        raise
    except KeyError as error:
        raise TaskError(f"field {error.args[0]} is missing", where) from error
    except ValueError as error:
        raise TaskError(str(error), where) from error


def row_files(path: Path) -> list[Path]:
    """The files of rows at `path`, those for grading alone left out; raises TaskError when there is none."""
    if not path.is_dir():
        return [path]
    found = sorted(file for suffix in SUFFIXES for file in path.rglob(f"*{suffix}"))
    found = [file for file in found if not _beside_tasks(file) and not _hidden(file.relative_to(path))]
    if not found:
        raise TaskError(f"{path} holds no .jsonl or .parquet file")
    return found


def _beside_tasks(file: Path) -> bool:
    """Whether its rows are not tasks but say something of tasks."""
    return file.name.endswith(GRADING_SUFFIX) or file.name == QUARANTINE


def _hidden(path: Path) -> bool:
    """Whether a file is out of sight, as the second way to every file of a mounted ConfigMap is."""
    return any(part.startswith(".") for part in path.parts)


def unread_rows(file: Path) -> Iterator[UnreadRow]:
    """The rows of one file with their grading halves; raises TaskError when it cannot be read."""
    if file.suffix == ".parquet":
        return _parquet(file)
    grading = read_grading(file)
    beside = grading_file(file)
    return (UnreadRow(where, partial(_object, line, where), grading, beside) for where, line in _lines(file))


def grading_file(file: Path) -> Path:
    """Where the half of `file` lies that only grading may know."""
    return file.with_name(file.stem + GRADING_SUFFIX)


def read_grading(file: Path) -> dict[str, Columns]:
    """The grading half of `file` by instance_id; empty when all is in `file`. Raises TaskError."""
    beside = grading_file(file)
    if not beside.is_file():
        return {}
    rows = (_object(line, where) for where, line in _lines(beside))
    return {str(row.get("instance_id")): row for row in rows}


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with file.open("rb") as content:
            for number, line in enumerate(content, start=1):
                if line.strip():
                    yield f"{file}:{number}", line
    except OSError as error:
        raise TaskError(f"{file}: cannot be read: {error.strerror}") from error


def _object(line: bytes, where: str) -> Columns:
    try:
        outer = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise TaskError(f"not UTF-8 text: {error}", where) from error
    except (ValueError, RecursionError) as error:
        raise TaskError(f"not valid JSON: {error}", where) from error
    if not isinstance(outer, dict):
        raise TaskError("a row must be a JSON object", where)
    return outer


def _parquet(file: Path) -> Iterator[UnreadRow]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise TaskError(f"{file}: Parquet needs pyarrow; in a checkout: uv pip install '.[agent]'") from error
    try:
        with ParquetFile(file) as content:
            rows = (row for batch in content.iter_batches(batch_size=64) for row in batch.to_pylist())
            for number, row in enumerate(rows):
                yield UnreadRow(f"{file}: row {number}", partial(dict, row))
    except (OSError, ArrowException) as error:
        raise TaskError(f"{file}: cannot be read as Parquet: {error}") from error
