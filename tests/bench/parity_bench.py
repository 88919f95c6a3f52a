"""Verdict parity: every log in swebench's own test suite, graded by its harness and by ours.

The suite is in the library's source distribution; its tests are run with recorders around the log parsers, and each
recorded log is graded by both sides as several tasks (which of its tests are to be fixed, which to be kept), without a
recorded exit code and with a good and a bad one.

    python -m tests.bench.parity_bench [FOLDER_OF_THE_SOURCE_DISTRIBUTION]
    python -m tests.bench.parity_bench --sample COUNT      # some of them with the harness's verdict, as JSON
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.grading.eval_script import END, EXIT_CODE, START
from swerl_agent.grading.swebench_report import grade_log
from swerl_agent.tasks import GroundTruth, Task

from cluster.layout import swerl_home

Log = tuple[str, str]  # parser, text


def source() -> Path:
    """swebench's source distribution, of the installed version, fetched once."""
    version, home = metadata.version("swebench"), swerl_home() / "sdists"
    if not (home / f"swebench-{version}").is_dir():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(home)]
        subprocess.run([*command, f"swebench=={version}"], check=True)
        with tarfile.open(home / f"swebench-{version}.tar.gz") as archive:
            archive.extractall(home, filter="data")
    return home / f"swebench-{version}"


def recorded(tests: Path) -> list[Log]:
    """Every log that the suite's tests give to a parser."""
    logs: dict[Log, None] = {}
    registry = import_module("swebench.harness.log_parsers").PARSER_REGISTRY
    for name, parser in list(registry.items()):
        registry[name] = wrapped = _recording(name, parser, logs)
        setattr(sys.modules[parser.__module__], parser.__name__, wrapped)
    files = [str(path) for pattern in ("test_log_*.py", "test_grading_*.py") for path in sorted(tests.glob(pattern))]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        failed = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(tests.parent), *files])
    if failed:
        raise SystemExit(f"swebench's own tests fail here:\n{said.getvalue()[-2000:]}")
    return list(logs)


def _recording(name: str, parser: Callable[..., Any], logs: dict[Log, None]) -> Callable[..., Any]:
    @functools.wraps(parser)
    def record(log: str, *more: Any, **named: Any) -> Any:
        logs[name, log] = None
        return parser(log, *more, **named)

    return record


def tasks_of(parser: str, statuses: dict[str, str]) -> Iterator[Task]:
    """Tasks that the log of these statuses may resolve, partly resolve or not."""
    passed = [test for test, status in statuses.items() if status == "PASSED"]
    others = [test for test in statuses if test not in passed]
    for kind in ("pass_and_fail", "fail_only"):
        for fix, keep in (
            (passed, []),
            (passed[:1], passed[1:]),
            (others, passed),
            (passed, others),
            (["absent"], passed),
        ):
            if fix:
                ground_truth = GroundTruth("", "", "", tuple(fix), tuple(keep), parser, kind)
                yield Task("o__r-1", "o/r", "0" * 40, "1", "text", "image", ground_truth)


def harness_resolves(task: Task, content: str) -> bool:
    """`resolved` in the harness's own report."""
    ground_truth = task.ground_truth
    spec = import_module("swebench.types").TestSpec(
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
    prediction = {"instance_id": task.instance_id, "model_name_or_path": "m", "model_patch": "x"}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        report = import_module("swebench.harness.grading").get_eval_report(spec, prediction, file.name, True)
    return bool(report[task.instance_id]["resolved"])


@dataclass(frozen=True)
class Comparison:
    """Verdicts of both sides on the same logs."""

    logs: int
    parsers: int
    verdicts: int
    resolved: int
    differences: list[str]

    def __str__(self) -> str:
        return (
            f"{self.logs} logs, {self.parsers} parsers, {self.verdicts} verdicts ({self.resolved} resolved), "
            f"{len(self.differences)} differences"
        )


def compare(tree: Path | None = None) -> Comparison:
    """Grade every log of `tree`, swebench's source, by default that of its source distribution, on both sides."""
    verdicts = resolved = 0
    differences: list[str] = []
    logs = recorded((tree or source()) / "tests")
    parsers = import_module("swebench.harness.log_parsers").PARSER_REGISTRY
    with contextlib.redirect_stdout(io.StringIO()):  # a parser prints what it misses, once for each reading
        for parser, log in logs:
            for task in tasks_of(parser, dict(parsers[parser](log, None))):
                for content in _contents(log):
                    theirs, ours = harness_resolves(task, content), bool(grade_log(task, content.encode())["resolved"])
                    verdicts, resolved = verdicts + 1, resolved + theirs
                    if theirs != ours:
                        differences.append(f"{parser}: harness {theirs}, here {ours}: {content[-300:]!r}")
    return Comparison(len(logs), len({parser for parser, _ in logs}), verdicts, resolved, differences)


def sample(count: int) -> list[dict[str, Any]]:
    """`count` runs of many parsers, every second one resolved: task, log and exit code, and what the harness says."""
    found: dict[tuple[bool, str], list[dict[str, Any]]] = {}
    parsers = import_module("swebench.harness.log_parsers").PARSER_REGISTRY
    with contextlib.redirect_stdout(io.StringIO()):
        for parser, log in recorded(source() / "tests"):
            if START in log or END in log:
                continue
            for task in tasks_of(parser, dict(parsers[parser](log, None))):
                for code in (0, 1):
                    resolved = harness_resolves(task, f"{START}\n{log}\n{END}\n{EXIT_CODE}: {code}\n")
                    ground_truth = task.ground_truth
                    row = {
                        "parser": parser,
                        "log": log,
                        "exit_code": code,
                        "resolved": resolved,
                        "fix": ground_truth.fail_to_pass,
                        "keep": ground_truth.pass_to_pass,
                        "kind": ground_truth.eval_type,
                    }
                    found.setdefault((resolved, parser), []).append(row)
    turns = [[rows for (resolved, _), rows in sorted(found.items()) if resolved is wanted] for wanted in (True, False)]
    return [row for rows in turns for row in _interleave(rows, count // 2)]


def _interleave(rows: list[list[dict[str, Any]]], count: int) -> list[dict[str, Any]]:
    """The first of each list, then the second of each, until there are `count`."""
    deepest = max(map(len, rows))
    return [each[turn] for turn in range(deepest) for each in rows if turn < len(each)][:count]


def _contents(log: str) -> list[str]:
    """The log as a run would leave it: without an exit code, with that of a success and of a failure."""
    end = "" if END in log else f"\n{END}\n"
    return [f"{START}\n{log}{end}{code}" for code in ("", f"{EXIT_CODE}: 0\n", f"{EXIT_CODE}: 1\n")]


def main() -> int:
    """Print the counts and every difference; 1 when there is one, or nothing to compare."""
    if sys.argv[1:2] == ["--sample"]:
        print(json.dumps(sample(int(sys.argv[2]))))
        return 0
    found = compare(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    print(*found.differences, found, sep="\n")
    return 1 if found.differences or not found.resolved else 0


if __name__ == "__main__":
    sys.exit(main())
