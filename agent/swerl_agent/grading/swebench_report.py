"""Grading of a test log with the `swebench` library: its parsers, its 5.x rules of what passed means."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from swerl_agent.tasks import GroundTruth, Task
from swerl_agent.tasks.swebench_library import library

from .eval_script import contradicted, normalised
from .outcomes import SUMMARY, outcome_map, outcome_report


def check_parser(ground_truth: GroundTruth) -> None:
    """Raise ValueError when swebench has no such parser or eval type."""
    _, parsers, _ = library()
    if ground_truth.log_parser not in parsers.PARSER_REGISTRY:
        raise ValueError(f"swebench has no log parser {ground_truth.log_parser!r}")
    if ground_truth.eval_type not in ("pass_and_fail", "fail_only"):
        raise ValueError(f"eval_type {ground_truth.eval_type!r} is neither pass_and_fail nor fail_only")


def grade_log(task: Task, log: bytes) -> dict[str, Any]:
    """swebench's report on the eval script's output: `resolved`, `tests_status`, infrastructure hints.

    A task that names every test's outcome is graded by these instead.
    """
    if task.ground_truth.expected_output:
        return outcome_report(task, log)
    grading, _, _ = library()
    spec, content = _spec(task), _content(task, log)
    prediction = {"instance_id": task.instance_id, "model_name_or_path": "swe-rl", "model_patch": ""}
    with tempfile.TemporaryDirectory(prefix="swerl-grading-") as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(_text(log) if content is None else content, encoding="utf-8")
        report: dict[str, Any] = grading.get_eval_report(spec, prediction, str(path), include_tests_status=True)
    result: dict[str, Any] = report[task.instance_id]
    return result


def confirmed(task: Task, summary: str) -> dict[str, bool]:
    """Whether each of the task's tests passed, by the same rules, according to lines of a pytest summary alone.

    Of a task that names every test's outcome: whether each is the expected one.
    """
    if task.ground_truth.expected_output:
        status = outcome_report(task, f"{SUMMARY}\n{summary}".encode()).get("tests_status", {})
        return dict.fromkeys(status.get("FAIL_TO_PASS", {}).get("success", []), True)
    grading, parsers, _ = library()
    statuses = parsers.PARSER_REGISTRY[task.ground_truth.log_parser](summary, _spec(task))
    statuses |= _interleaved(statuses, [*task.ground_truth.fail_to_pass, *task.ground_truth.pass_to_pass])
    kept = {test: grading.test_maintained(test, statuses) for test in task.ground_truth.pass_to_pass}
    return kept | {test: grading.test_passed(test, statuses) for test in task.ground_truth.fail_to_pass}


def _interleaved(statuses: dict[str, str], tests: Sequence[str]) -> dict[str, str]:
    """Statuses of those `tests` whose name holds what was printed before it on its line.

    Django prints through two buffers: task sets have names such as `Applying sites.0002...test_a (m.C)`.
    """
    named = {name for name in statuses if " (" in name}
    cut = {test: [name for name in named if test.endswith(name)] for test in tests if test not in statuses}
    return {test: statuses[max(names, key=len)] for test, names in cut.items() if names}


def doubly_reported(task: Task, log: bytes) -> list[str]:
    """The task's tests that lines of the log report both as passed and as failed."""
    _, parsers, _ = library()
    parser, spec = parsers.PARSER_REGISTRY[task.ground_truth.log_parser], _spec(task)
    found = contradicted(log.decode("utf-8", "replace"), lambda line: parser(line, spec))
    return [test for test in (*task.ground_truth.fail_to_pass, *task.ground_truth.pass_to_pass) if test in found]


def statuses(task: Task, log: bytes) -> dict[str, str]:
    """The status of every test that a whole log reports, by swebench's names."""
    if task.ground_truth.expected_output:
        return outcome_map(_text(log))
    _, parsers, _ = library()
    content = _content(task, log)
    return dict(parsers.PARSER_REGISTRY[task.ground_truth.log_parser](content, _spec(task))) if content else {}


@lru_cache(maxsize=1)  # an unresolved log is read for its verdict, and again for the names in it
def _content(task: Task, log: bytes) -> str | None:
    """The log as swebench grades it, see `normalised`."""
    _, parsers, _ = library()
    parser, spec = parsers.PARSER_REGISTRY[task.ground_truth.log_parser], _spec(task)
    return normalised(_text(log), lambda line: parser(line, spec))


def _text(log: bytes) -> str:
    return log.decode("utf-8", "replace").replace("\r\n", "\n")


def recorded_statuses(task: Task, summary: str) -> dict[str, str]:
    """The status of every test in the witness's record, by the same names."""
    if task.ground_truth.expected_output:
        return outcome_map(f"{SUMMARY}\n{summary}")
    _, parsers, _ = library()
    return dict(parsers.PARSER_REGISTRY[task.ground_truth.log_parser](summary, _spec(task)))


def status_of(test: str, found: dict[str, str]) -> str:
    """The status of one test among others, '' where it has none."""
    grading, _, _ = library()
    key = grading._resolve_case(test, found)
    return found[key] if key is not None else _interleaved(found, [test]).get(test, "")


def _spec(task: Task) -> Any:
    _, _, spec_type = library()
    ground_truth = task.ground_truth
    return spec_type(
        instance_id=task.instance_id,
        image=task.image,
        eval_script_list=[],
        repo=task.repo,
        version=task.version,
        FAIL_TO_PASS=list(ground_truth.fail_to_pass),
        PASS_TO_PASS=list(ground_truth.pass_to_pass),
        log_parser=ground_truth.log_parser,
        eval_type=ground_truth.eval_type,
    )
