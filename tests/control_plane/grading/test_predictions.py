"""`swerl grade` on a real cluster: verdicts, resumption, faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from swerl_agent.tasks import Task

from .cheats import CHEATS
from .task_image import Repository


@pytest.fixture
def taskset(task: Task, tmp_path: Path) -> Path:
    """The task as jsonl, twice under other names, once with an image that does not exist."""
    ground_truth = task.ground_truth
    row = {
        "repo": task.repo,
        "base_commit": task.base_commit,
        "version": task.version,
        "problem_statement": task.problem_statement,
        "image": task.image,
        "eval_script": ground_truth.eval_script,
        "patch": ground_truth.patch,
        "test_patch": ground_truth.test_patch,
        "FAIL_TO_PASS": list(ground_truth.fail_to_pass),
        "PASS_TO_PASS": list(ground_truth.pass_to_pass),
    }
    rows = [row | {"instance_id": f"calc__calc-{number}"} for number in range(1, 4)]
    rows.append(row | {"instance_id": "calc__calc-4", "image": "registry.swerl:5000/swe-rl/no-such-image:1"})
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def grade(kubeconfig: str, namespace: str, taskset: Path, predictions: Path, *more: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "swerl_agent.cli", "grade", str(predictions), "--tasks", str(taskset)]
    command += ["--kubeconfig", kubeconfig, "--namespace", namespace, "--cpu", "200m", "--memory", "256Mi"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_predictions_are_graded_and_resumed(
    kubeconfig: str, namespace: str, taskset: Path, task: Task, repository: Repository, tmp_path: Path
) -> None:
    cheat = repository.patch(CHEATS["exits after result lines"].files)
    patches = {"1": task.ground_truth.patch, "2": cheat, "3": None, "4": task.ground_truth.patch, "5": "x"}
    rows = [
        {"instance_id": f"calc__calc-{number}", "model_name_or_path": "org/m", "model_patch": patch}
        for number, patch in patches.items()
    ]
    predictions = tmp_path / "preds.json"
    predictions.write_text(json.dumps(rows))
    output = tmp_path / "reports"

    code, output_text = grade(kubeconfig, namespace, taskset, predictions, "--output", str(output))
    assert code == 3, output_text  # the image of one does not exist
    counted = json.loads((output / "org__m.json").read_text())
    kinds = ("resolved", "unresolved", "empty_patch", "error", "unknown", "tampering")
    found = [[name[-1] for name in counted[f"{kind}_ids"]] for kind in kinds]
    assert found == [["1"], ["2"], ["3"], ["4"], ["5"], ["2"]]
    report = json.loads((output / "org__m/calc__calc-2/report.json").read_text())["calc__calc-2"]
    assert "cut short" in report["detail"]
    graded = output / "org__m/calc__calc-1"
    assert (graded / "eval.sh").read_text() == task.ground_truth.eval_script
    assert "PASSED" in (graded / "test_output.txt").read_text()

    code, output_text = grade(kubeconfig, namespace, taskset, predictions, "--output", str(output))
    assert "5 predictions, 3 graded before" in output_text
    assert "calc__calc-1 " not in output_text, "a verdict is not made again"
    assert json.loads((output / "org__m.json").read_text()) == counted


def test_disk_error_of_reports_is_one_clear_error(
    kubeconfig: str, namespace: str, taskset: Path, task: Task, tmp_path: Path
) -> None:
    row = {"instance_id": "calc__calc-1", "model_name_or_path": "m", "model_patch": task.ground_truth.patch}
    predictions = tmp_path / "preds.jsonl"
    predictions.write_text(json.dumps(row) + "\n")
    code, output_text = grade(kubeconfig, namespace, taskset, predictions, "--output", "/dev/full/reports")
    assert code == 3
    assert output_text.splitlines()[-1].startswith("swerl: ")
    assert "/dev/full/reports" in output_text
    assert "Traceback" not in output_text
