"""`swerl tasks check` through real grading Jobs: fit, unfit, flaky and undecided tasks, and a check that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.tasks import Task
from swerl_agent.tasks.quarantine import read_quarantine
from swerl_agent.tasks.writing import grading_columns, visible_columns

from .task_image import FIXED, HIDDEN_TEST, SOURCE, Repository, push_image

FLAKY_TESTS = tuple(f"tests/test_calc.py::test_coin_{number}" for number in range(16))
FLAKY_SCRIPT = """#!/bin/bash
echo '>>>>> Start Test Output'
for number in {0..15}; do
  ((RANDOM % 2)) && word=PASSED || word=FAILED
  echo "$word tests/test_calc.py::test_coin_$number"
done
false
echo '>>>>> End Test Output'
"""

Check = Callable[..., list[str]]


def write_tasks(path: Path, *tasks: Task) -> Path:
    path.write_text("".join(json.dumps(visible_columns(task) | grading_columns(task)) + "\n" for task in tasks))
    return path


def variant(task: Task, name: str, *, image: str = "", **ground_truth: Any) -> Task:
    changed = replace(task.ground_truth, **ground_truth)
    return replace(task, instance_id=name, image=image or task.image, ground_truth=changed)


@pytest.fixture
def check(kubeconfig: str, namespace: str, tmp_path: Path) -> Check:
    """The command line of a check whose output is `tmp_path`/out."""
    options = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--output", str(tmp_path / "out")]
    limits = ["--cpu", "200m", "--memory", "256Mi", "--timeout", "60"]
    return lambda *arguments: [
        sys.executable,
        "-m",
        "swerl_agent.cli",
        "tasks",
        "check",
        *map(str, arguments),
        *limits,
        *options,
    ]


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "runs.jsonl").read_text().splitlines()]


def test_unfit_and_flaky_tasks_are_quarantined_with_the_evidence(task: Task, tmp_path: Path, check: Check) -> None:
    tasks = [
        variant(task, "calc__calc-fit"),
        variant(task, "calc__calc-gold", patch=task.ground_truth.patch.replace("min(high", "max(high")),
        variant(task, "calc__calc-empty", fail_to_pass=("tests/test_calc.py::test_double",), pass_to_pass=()),
        variant(task, "calc__calc-flaky", eval_script=FLAKY_SCRIPT, fail_to_pass=FLAKY_TESTS, pass_to_pass=()),
        variant(task, "calc__calc-parser", log_parser="parse_log_nothing"),
    ]
    path = write_tasks(tmp_path / "tasks.jsonl", *tasks)
    done = subprocess.run(check(path, "--repeat", 2), capture_output=True, text=True, timeout=500)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 5 tasks are fit" in done.stdout, done.stdout
    quarantine = tmp_path / "out" / "quarantine.jsonl"
    rows = {row["instance_id"].rpartition("-")[2]: row for row in map(json.loads, quarantine.read_text().splitlines())}
    reasons = {name: row["reason"] for name, row in rows.items()}
    assert reasons == {
        "gold": "gold_fails",
        "empty": "empty_passes",
        "flaky": "flaky",
        "parser": "unreadable",
    }
    assert [run["failed"] for run in rows["gold"]["evidence"]["gold"]] == [["tests/test_calc.py::test_clamp"]] * 2
    first, second = (set(run["failed"]) for run in rows["flaky"]["evidence"]["gold"])
    assert first != second
    assert len(runs(tmp_path)) == 4 * 2 * 2
    log = (tmp_path / "out" / "logs" / "calc__calc-gold.gold.1.txt").read_text()
    assert "FAILED tests/test_calc.py::test_clamp" in log
    assert len(read_quarantine(quarantine)) == 4


def test_image_that_does_not_exist_leaves_a_task_undecided(task: Task, tmp_path: Path, check: Check) -> None:
    missing = "registry.swerl:5000/swe-rl/no-such-image:1"
    path = write_tasks(tmp_path / "tasks.jsonl", variant(task, "calc__calc-1", image=missing))
    done = subprocess.run(check(path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 3, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("calc__calc-1")]
    assert "undecided" in line
    assert "no-such-image" in line
    assert (tmp_path / "out" / "quarantine.jsonl").read_text() == ""


def test_killed_check_resumes(task: Task, tmp_path: Path, check: Check) -> None:
    path = write_tasks(tmp_path / "tasks.jsonl", *(variant(task, f"calc__calc-{number}") for number in range(3)))
    command = check(path, "--repeat", 2, "--jobs", 1)
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    journal = tmp_path / "out" / "runs.jsonl"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and not (journal.is_file() and journal.read_bytes().count(b"\n") >= 3):
        time.sleep(0.2)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = journal.read_bytes()
    assert 3 <= before.count(b"\n") < 12
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 tasks are fit" in done.stdout
    assert journal.read_bytes().startswith(before)
    kinds = sorted((run["instance_id"], run["kind"]) for run in runs(tmp_path))
    assert kinds == sorted((f"calc__calc-{n}", kind) for n in range(3) for kind in ("gold", "empty") for _ in range(2))
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert len(runs(tmp_path)) == 12, "nothing is left to do"


@pytest.fixture
def r2e_row(tmp_path: Path) -> dict[str, Any]:
    """A row of R2E-Gym whose image holds the tests and the script that runs them, unknown to git."""
    repository = Repository(tmp_path / "calc")
    repository.write("r2e_tests/test_1.py", HIDDEN_TEST + "\n\ndef test_broken():\n    assert double(1) == 3\n")
    repository.write("run_tests.sh", "python3 -m pytest -rA -p no:cacheprovider r2e_tests\n")
    image = push_image(repository)
    change = {"header": {"file": {"path": "calc.py"}}, "old_file_content": SOURCE, "new_file_content": FIXED}
    outcomes = {"test_clamp": "PASSED", "test_double": "PASSED", "test_broken": "FAILED"}
    return {
        "repo_name": "calc",
        "docker_image": image,
        "commit_hash": "f" * 40,
        "parsed_commit_content": json.dumps({"file_diffs": [change], "old_commit_hash": repository.commit}),
        "expected_output_json": json.dumps(outcomes),
        "problem_statement": "[ISSUE]clamp ignores `high`.[/ISSUE]",
    }


def test_imported_r2e_task_is_fit(r2e_row: dict[str, Any], tmp_path: Path, check: Check) -> None:
    source, tasks = tmp_path / "r2e.jsonl", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps(r2e_row) + "\n")
    assert main(["tasks", "import", str(source), "--output", str(tasks)]) == 0
    done = subprocess.run(check(tasks), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {run["kind"]: run["status"] for run in runs(tmp_path)} == {"gold": "resolved", "empty": "unresolved"}
    assert [run["failed"] for run in runs(tmp_path) if run["kind"] == "empty"] == [["test_clamp"]]
