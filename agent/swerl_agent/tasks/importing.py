"""From rows of any source to tasks that can be graded.

Guarantees: every malformed row is reported with its place and field, not the first alone; a task without an eval
script, without an image, with a log parser that swebench lacks, or given twice is malformed; a benchmark is not
imported for training unless that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from swerl_api import RegistryRewrite
from swerl_api.images import rewrite

from .benchmark_refusal import benchmark_refusal
from .benchmarks import Purpose
from .eval_scripts import eval_script_of
from .row_files import UnreadRow, task_of
from .rows import Row
from .sources import RowSource
from .swebench_library import library
from .task import GENERIC_PARSER, PARSERS, Task, TaskError
from .unsupported_sets import unsupported_set


@dataclass(frozen=True)
class Entry:
    """One row and the task it is."""

    where: str
    row: Row
    task: Task


@dataclass(frozen=True)
class ImportRequest:
    """What to import."""

    purpose: Purpose = "train"
    train_on_benchmark: bool = False
    filter: str | None = None  # regular expression at the start of the id
    exclude: Collection[str] = ()
    limit: int = 0  # rows in the order of the sources; 0 means all
    scripts: Mapping[str, str] = field(default_factory=dict)  # by lower-cased id, for rows that have none
    registry_rewrite: Sequence[RegistryRewrite] = ()


LocatedRow = tuple[str, Row]  # file and line, and the row
TaskErrorHandler = Callable[[TaskError], None]


def gather(sources: Iterable[RowSource], request: ImportRequest, report: TaskErrorHandler) -> list[Entry]:
    """The tasks of `sources`, in their order; malformed ones go to `report`.

    Raises TaskError when a source cannot be read, for a refused benchmark, and when nothing is left.
    """
    rows = [located for source in sources for located in _chosen(_read_rows(source, report), request)]
    tasks = _tasks(_with_scripts(rows, request, report), request, report)
    entries = list(_without_repeats(_readable(tasks, report), report))
    refusal = benchmark_refusal(entry.task for entry in entries) if request.purpose == "train" else None
    if refusal:
        raise TaskError(refusal)
    if not entries:
        raise TaskError(f"no task is left of {len(rows)} rows chosen")
    return entries


def import_one(unread: UnreadRow, request: ImportRequest, *, data_source: str = "") -> Task:
    """The task of one row, of `data_source` where it names none; raises TaskError naming what is wrong with it."""
    errors: list[TaskError] = []
    row = unread.whole_row(data_source=data_source)
    found = list(_tasks(_with_scripts([(unread.where, row)], request, errors.append), request, errors.append))
    if errors:
        raise errors[0]
    return found[0].task


def _read_rows(source: RowSource, report: TaskErrorHandler) -> Iterator[LocatedRow]:
    for unread in source.unread_rows():
        try:
            yield unread.where, unread.whole_row(**source.defaults)
        except TaskError as error:
            report(error)


def _chosen(rows: Iterable[LocatedRow], request: ImportRequest) -> Iterator[LocatedRow]:
    pattern = _pattern(request.filter)
    kept = ((where, row) for where, row in rows if _id(row) not in request.exclude and pattern.match(_id(row)))
    return islice(kept, request.limit or None)


def _pattern(text: str | None) -> re.Pattern[str]:
    try:
        return re.compile(text or "")
    except re.error as error:
        raise TaskError(f"filter {text!r} is not a regular expression: {error}") from error


def _with_scripts(rows: Iterable[LocatedRow], request: ImportRequest, report: TaskErrorHandler) -> Iterator[LocatedRow]:
    for where, row in rows:
        given = row.columns.get("eval_script") or _id(row).lower() in request.scripts
        if reason := unsupported_set(row, scripted=bool(given)):
            report(TaskError(reason, where))
            continue
        try:
            script = eval_script_of(row.columns, request.scripts)
        except ValueError as error:
            report(TaskError(str(error), where))
        else:
            yield where, replace(row, columns=row.columns | {"eval_script": script})


def _tasks(rows: Iterable[LocatedRow], request: ImportRequest, report: TaskErrorHandler) -> Iterator[Entry]:
    for where, row in rows:
        allowed = replace(row, train_on_benchmark=row.train_on_benchmark or request.train_on_benchmark)
        try:
            task = task_of(allowed, where=where)
        except TaskError as error:
            report(error)
        else:
            yield Entry(where, allowed, replace(task, image=rewrite(task.image, request.registry_rewrite)))


def _readable(entries: Iterable[Entry], report: TaskErrorHandler) -> Iterator[Entry]:
    """Those whose log parser swebench has."""
    for entry in entries:
        name = entry.task.ground_truth.log_parser
        if name in (GENERIC_PARSER, *PARSERS.values()) or name in library()[1].PARSER_REGISTRY:
            yield entry
        else:
            reason = f"log_parser {name} is none of swebench's, so nothing reads the output of its tests"
            report(TaskError(reason, entry.where))


def _without_repeats(entries: Iterable[Entry], report: TaskErrorHandler) -> Iterator[Entry]:
    first: dict[str, str] = {}
    for entry in entries:
        name = entry.task.instance_id
        if name in first:
            report(TaskError(f"instance_id {name} was given before, at {first[name]}", entry.where))
        else:
            first[name] = entry.where
            yield entry


def _id(row: Row) -> str:
    return str(row.columns.get("instance_id") or "")
