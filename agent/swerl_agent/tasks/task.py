"""The noun `Task` and its two halves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


class TaskError(ValueError):
    """A task that cannot be read; the message names file, place and field."""


@dataclass(frozen=True)
class TaskView:
    """What the agent may know of a task."""

    instance_id: str
    repo: str
    base_commit: str
    version: str
    problem_statement: str
    image: str


@dataclass(frozen=True)
class Evaluation:
    """What only grading may know: never in a prompt, a sandbox or an artifact."""

    eval_script: str = field(repr=False)
    patch: str = field(repr=False)  # the reference fix
    test_patch: str = field(repr=False)
    fail_to_pass: tuple[str, ...] = field(repr=False)
    pass_to_pass: tuple[str, ...] = field(repr=False)
    log_parser: str = GENERIC_PARSER  # key of swebench's PARSER_REGISTRY
    eval_type: str = "pass_and_fail"


@dataclass(frozen=True)
class Task:
    """One task as the trusted side holds it."""

    instance_id: str
    repo: str
    base_commit: str
    version: str
    problem_statement: str = field(repr=False)
    image: str
    evaluation: Evaluation = field(repr=False)
    split: str = ""

    def visible(self) -> TaskView:
        """The half that prompts are rendered from."""
        return TaskView(self.instance_id, self.repo, self.base_commit, self.version, self.problem_statement, self.image)


def task_from_row(row: Mapping[str, Any], *, where: str, image: str) -> Task:
    """Task of a dataset row (SWE-bench column names).

    `where` names the row in messages. Raises TaskError naming the first field that is missing or has a wrong type.
    """
    repo = _text(row, "repo", where)
    evaluation = Evaluation(
        eval_script=_text(row, "eval_script", where),
        patch=_text(row, "patch", where),
        test_patch=_text(row, "test_patch", where, empty=True),
        fail_to_pass=_tests(row, "FAIL_TO_PASS", where),
        pass_to_pass=_tests(row, "PASS_TO_PASS", where),
        log_parser=str(row.get("log_parser") or PARSERS.get(repo, GENERIC_PARSER)),
        eval_type=str(row.get("eval_type") or "pass_and_fail"),
    )
    if not evaluation.fail_to_pass:
        raise TaskError(f"{where}: FAIL_TO_PASS is empty, so nothing grades this task")
    return Task(
        instance_id=_text(row, "instance_id", where),
        repo=repo,
        base_commit=_text(row, "base_commit", where),
        version=str(row.get("version") or ""),
        problem_statement=_text(row, "problem_statement", where),
        image=image,
        evaluation=evaluation,
        split=str(row.get("split") or ""),
    )


def _text(row: Mapping[str, Any], key: str, where: str, *, empty: bool = False) -> str:
    value = row.get(key)
    if value is None and empty:
        return ""
    if not isinstance(value, str) or not (value or empty):
        found = "missing" if value is None else "empty" if value == "" else f"{type(value).__name__}, not a string"
        raise TaskError(f"{where}: field {key} is {found}")
    return value


def _tests(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Test ids given as a list or as a JSON string of a list."""
    value = row.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise TaskError(f"{where}: field {key} is a string that is not JSON: {error}") from error
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(test, str) for test in value):
        raise TaskError(f"{where}: field {key} must be a list of test ids, or that list as a JSON string")
    return tuple(value)
