"""`swerl grade` on scripts that replay logs of swebench's own tests: through real Jobs, the harness's verdicts."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.grading.eval_script import END, START
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns

from .task_image import FIXED, Repository

RUNS = 24


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    """Recorded logs with the harness's verdict, from a process of its own, which puts recorders around its parsers."""
    command = [sys.executable, "-m", "tests.bench.parity_bench", "--sample", str(RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(found) == RUNS and sum(run["resolved"] for run in found) == RUNS // 2
    assert len({run["parser"] for run in found}) >= 8
    return found


def replay(task: Task, number: int, run: dict[str, Any]) -> Task:
    log = base64.encodebytes(run["log"].encode()).decode()
    script = (
        f"#!/bin/bash\necho '{START}'\nbase64 -d <<'EOF'\n{log}EOF\necho\n(exit {run['exit_code']})\necho '{END}'\n"
        "git status\n"
    )
    replayed = replace(
        task.ground_truth,
        eval_script=script,
        fail_to_pass=tuple(run["fix"]),
        pass_to_pass=tuple(run["keep"]),
        log_parser=run["parser"],
        eval_type=run["kind"],
    )
    return replace(task, instance_id=f"calc__calc-{number}", ground_truth=replayed)


def test_every_verdict_is_the_harness_s(
    kubeconfig: str, namespace: str, task: Task, repository: Repository, runs: list[dict[str, Any]], tmp_path: Path
) -> None:
    tasks = [replay(task, number, run) for number, run in enumerate(runs)]
    rows = [json.dumps(visible_columns(each) | grading_columns(each)) for each in tasks]
    (tmp_path / "tasks.jsonl").write_text("\n".join(rows))
    patch = repository.patch({"calc.py": FIXED})
    predictions = [{"instance_id": t.instance_id, "model_name_or_path": "m", "model_patch": patch} for t in tasks]
    (tmp_path / "preds.json").write_text(json.dumps(predictions))
    command = [sys.executable, "-m", "swerl_agent.cli", "grade", str(tmp_path / "preds.json")]
    command += ["--tasks", str(tmp_path / "tasks.jsonl"), "--output", str(tmp_path / "reports"), "--jobs", "6"]
    command += ["--kubeconfig", kubeconfig, "--namespace", namespace, "--cpu", "100m", "--memory", "128Mi"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = json.loads((tmp_path / "reports/m.json").read_text())
    resolved_ids = sorted(t.instance_id for t, run in zip(tasks, runs, strict=True) if run["resolved"])
    assert counted["resolved_ids"] == resolved_ids, done.stdout
    assert counted["completed_instances"] == RUNS
    assert counted["unwitnessed_ids"] == resolved_ids, "nothing but the log spoke"
