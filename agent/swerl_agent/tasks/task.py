"""The noun `Task` and its two halves."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .benchmarks import is_benchmark
from .columns import decoded

if TYPE_CHECKING:
    from .rows import Row

GENERIC_PARSER = "parse_log_pytest"

# Repositories whose test output the generic pytest parser does not read, with the `swebench` parser that does.
PARSERS = {
    "astropy/astropy": "parse_log_astropy",
    "django/django": "parse_log_django",
    "marshmallow-code/marshmallow": "parse_log_marshmallow",
    "matplotlib/matplotlib": "parse_log_matplotlib",
    "mwaskom/seaborn": "parse_log_seaborn",
    "pallets/flask": "parse_log_flask",
    "psf/requests": "parse_log_requests",
    "pvlib/pvlib-python": "parse_log_pvlib",
    "pydata/xarray": "parse_log_xarray",
    "pydicom/pydicom": "parse_log_pydicom",
    "pylint-dev/astroid": "parse_log_astroid",
    "pylint-dev/pylint": "parse_log_pylint",
    "pyvista/pyvista": "parse_log_pyvista",
    "scikit-learn/scikit-learn": "parse_log_scikit",
    "sphinx-doc/sphinx": "parse_log_sphinx",
    "sqlfluff/sqlfluff": "parse_log_sqlfluff",
    "sympy/sympy": "parse_log_sympy",
}


_INSTANCE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class TaskError(ValueError):
    """A task that cannot be read: `place` is a file and line or row ('' for none), `reason` names the field."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason, self.place = reason, place


@dataclass(frozen=True)
class TaskView:
    """The part of a task that the agent may see."""

    instance_id: str
    repo: str
    base_commit: str
    version: str
    problem_statement: str
    image: str


@dataclass(frozen=True)
class GroundTruth:
    """The part of a task that only grading may see: never in a prompt, a sandbox or an artifact."""

    eval_script: str = field(repr=False)
    patch: str = field(repr=False)  # the reference fix
    test_patch: str = field(repr=False)
    fail_to_pass: tuple[str, ...] = field(repr=False)
    pass_to_pass: tuple[str, ...] = field(repr=False)
    log_parser: str = GENERIC_PARSER  # key of swebench's PARSER_REGISTRY
    eval_type: str = "pass_and_fail"
    expected_output: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # R2E-Gym: every test and its outcome


@dataclass(frozen=True)
class Task:
    """One task as the trusted side holds it."""

    instance_id: str
    repo: str
    base_commit: str
    version: str
    problem_statement: str = field(repr=False)
    image: str
    ground_truth: GroundTruth = field(repr=False)
    split: str = ""
    data_source: str = ""
    benchmark: bool = False  # of a set that results are published on: never trained on unless its import allowed it
    hidden_paths: tuple[str, ...] = ()  # of the image; hold tests, so they are removed before the agent begins
    workdir: str = ""  # folder of the repository in the image where it is another than that of the sandbox settings

    def workdir_or(self, default: str) -> str:
        """The folder of the repository in the task's image; `default`: that of the sandbox settings."""
        return self.workdir or default

    def visible(self) -> TaskView:
        """The half that prompts are rendered from."""
        return TaskView(self.instance_id, self.repo, self.base_commit, self.version, self.problem_statement, self.image)


def task_from_row(row: Row, *, where: str, image: str) -> Task:
    """Task of a dataset row.

    `where` names the row in messages. Raises TaskError naming the first field that is missing or has a wrong type.
    """
    columns = row.columns
    repo = _text(columns, "repo", where)
    fail_to_pass = dict.fromkeys(_tests(columns, "FAIL_TO_PASS", where))
    ground_truth = GroundTruth(
        eval_script=_text(columns, "eval_script", where).replace("\r\n", "\n"),
        patch=_text(columns, "patch", where),
        test_patch=_text(columns, "test_patch", where, empty=True),
        fail_to_pass=tuple(fail_to_pass),
        pass_to_pass=tuple(test for test in _tests(columns, "PASS_TO_PASS", where) if test not in fail_to_pass),
        log_parser=str(columns.get("log_parser") or PARSERS.get(repo, GENERIC_PARSER)),
        eval_type=str(columns.get("eval_type") or "pass_and_fail"),
        expected_output=_outcomes(columns, "expected_output_json", where),
    )
    if not ground_truth.fail_to_pass:
        raise TaskError("FAIL_TO_PASS is empty, so nothing grades this task", where)
    return Task(
        instance_id=_instance_id(columns, where),
        repo=repo,
        base_commit=_text(columns, "base_commit", where),
        version=str(columns.get("version") or ""),
        problem_statement=_text(columns, "problem_statement", where),
        image=image,
        ground_truth=ground_truth,
        split=row.split,
        data_source=row.data_source,
        benchmark=is_benchmark(row.data_source, row.split, repo) and not row.train_on_benchmark,
        hidden_paths=_paths(columns, "hidden_paths", where),
        workdir=_folder(columns, "workdir", where),
    )


def _instance_id(columns: Mapping[str, Any], where: str) -> str:
    """The id, which also names folders: what `storage.file_name` leaves as it is, so that no two ids share a folder."""
    name = _text(columns, "instance_id", where)
    if not _INSTANCE_ID.fullmatch(name):
        raise TaskError(
            f"instance_id {name!r} holds other characters than letters, digits, - . _ or begins with - or .", where
        )
    return name


def _text(row: Mapping[str, Any], key: str, where: str, *, empty: bool = False) -> str:
    value = row.get(key)
    if value is None and empty:
        return ""
    if not isinstance(value, str) or not (value or empty):
        found = "missing" if value is None else "empty" if value == "" else f"{type(value).__name__}, not a string"
        raise TaskError(f"field {key} is {found}", where)
    return value


def _outcomes(row: Mapping[str, Any], key: str, where: str) -> tuple[tuple[str, str], ...]:
    """Outcome by test, given as an object or its JSON; empty when there is none."""
    value = _parsed(row, key, where) or {}
    if not isinstance(value, Mapping) or not all(isinstance(outcome, str) for outcome in value.values()):
        raise TaskError(f"field {key} must be an object of test and outcome, or its JSON", where)
    return tuple(value.items())


def _folder(row: Mapping[str, Any], key: str, where: str) -> str:
    value = _text(row, key, where, empty=True)
    if value and (not value.startswith("/") or posixpath.normpath(value) != value):
        raise TaskError(
            f"field {key} must be an absolute path without '.', '..' and a last slash, not {value!r}", where
        )
    return value


def _paths(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = row.get(key) or []
    if not isinstance(value, Sequence) or not all(isinstance(path, str) and path.startswith("/") for path in value):
        raise TaskError(f"field {key} must be a list of absolute paths", where)
    return tuple(value)


def _tests(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Test ids, each once: a list, or the text of one; the column may have a lower-case name. Empty when absent."""
    key = key if key in row else key.lower()
    value = _parsed(row, key, where)
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(test, str) for test in value):
        raise TaskError(f"field {key} must be a list of test ids, or that list as text", where)
    return tuple(dict.fromkeys(value))


def _parsed(row: Mapping[str, Any], key: str, where: str) -> Any:
    try:
        return decoded(row, key)
    except ValueError as error:
        raise TaskError(str(error), where) from error
