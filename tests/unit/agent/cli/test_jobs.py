"""Commands about job files and about folders of jobs, which need no cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from swerl_agent.cli import main
from swerl_agent.jobs import parse_job

from tests.unit.agent.console.artifacts import write_evaluation, write_held_out, write_job

ANSWERS = ["--model", "Qwen/Qwen3-4B", "--tasks", "swe-tasks:train", "--output-claim", "runs"]


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


def test_written_job_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "job.yaml")
    assert main(["init", path, *ANSWERS, "--gpus", "8", "--nodes", "2"]) == 0
    assert f"next: swerl validate {path}" in capsys.readouterr().err
    assert main(["validate", path, "--offline"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{path}: no errors"
    assert main(["init", path, *ANSWERS]) == 2
    assert "give --force to overwrite it" in capsys.readouterr().err


def test_check_without_a_cluster_names_the_one_of_the_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "job.yaml")
    main(["init", path, *ANSWERS])
    assert main(["validate", path]) == 2
    error = capsys.readouterr().err
    assert "no such file" in error and f"`swerl validate --offline {path}` checks the file without a cluster" in error


def test_job_on_standard_output_is_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", *ANSWERS, "--gpus", "1", "--name", "mine"]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["metadata"] == {"name": "mine"} and job["spec"]["colocate"] is True


def test_job_is_written_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", *ANSWERS, "--gpus", "1"]) == 0
    job = parse_job(capsys.readouterr().out, "job.yaml").job
    assert main(["init", *ANSWERS, "--gpus", "1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == job
    path = str(tmp_path / "job.json")
    assert main(["init", path, *ANSWERS, "--gpus", "1", "-o", "json"]) == 0
    assert json.loads(Path(path).read_text()) == job
    assert main(["validate", path, "--offline"]) == 0


def test_model_without_a_layout_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--model", "Qwen/Qwen3-32B", "--tasks", "a:b", "--gpus", "1"]) == 1
    assert "swerl: spec.trainer" in capsys.readouterr().err


def test_faults_are_printed_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", *ANSWERS])
    text = capsys.readouterr().out
    path = tmp_path / "job.yaml"
    path.write_text(text.replace("groupSize: 8", 'n_samples_per_prompt: "8"'))
    assert main(["validate", str(path), "--offline"]) == 1
    assert '"8": no such field; use spec.algorithm.groupSize' in capsys.readouterr().out
    assert main(["validate", str(path), "--offline", "-o", "json"]) == 1
    [fault] = json.loads(capsys.readouterr().out)["faults"]
    assert fault["field"] == "spec.algorithm.n_samples_per_prompt" and fault["level"] == "error"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grading", "g1/0", "--sandbox", "g1/0"], "--grading and --sandbox exclude each other"),
        (["--grading", "g1/0", "--follow"], "--source, --follow and --attempt are for logs of processes"),
        (["--sandbox", "g1/0", "--source", "driver"], "--source, --follow and --attempt are for logs of processes"),
    ],
)
def test_log_of_one_episode_takes_no_options_of_others(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "job", *options]) == 2
    assert message in capsys.readouterr().err


def test_file_that_is_no_job_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: ConfigMap\n")
    assert main(["validate", str(path), "--offline"]) == 2
    assert "has no SweRLJob; it has ConfigMap" in capsys.readouterr().err


def test_metrics_of_a_folder_are_plotted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"kind": "step", "step": step, "rollout/raw_reward": step / 10} for step in range(1, 11)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["metrics", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "rollout/raw_reward: 1\n" in printed and "0.1 ┤" in printed
    assert main(["metrics", str(tmp_path), "--metric", "train/loss"]) == 1
    assert "train/loss: no values" in capsys.readouterr().out
    assert main(["metrics", str(tmp_path), "--list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rollout/raw_reward": 1.0}


def test_two_evaluations_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for solved, run in enumerate(("one", "other")):
        write_evaluation(tmp_path / run, tasks=12, samples=1, solved=solved)
    folders = [str(tmp_path / run) for run in ("one", "other")]
    assert main(["compare", *folders]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("12 tasks in both: +100.0 points (95 % interval")
    assert "differs from 0); 12 better, 0 worse" in printed
    assert main(["compare", *folders, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["better"] == 12
    (tmp_path / "empty").mkdir()
    assert main(["compare", folders[0], str(tmp_path / "empty")]) == 1
    assert main(["compare", folders[0], str(tmp_path / "absent")]) == 2


def test_two_jobs_are_compared_by_their_newest_held_out_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job, solved in (("one", 2), ("other", 8)):
        write_job(tmp_path / job, steps=1, groups=2, size=2)
        write_held_out(tmp_path / job, 10, tasks=12, solved=12 - solved)
        write_held_out(tmp_path / job, 20, tasks=12, solved=solved)
    folders = [str(tmp_path / job) for job in ("one", "other")]
    assert main(["compare", *folders]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("12 tasks in both: +50.0 points (95 % interval") and "6 better, 0 worse" in printed
    assert main(["compare", *folders, "-o", "json"]) == 0
    tasks = {task["task"]: task for task in json.loads(capsys.readouterr().out)["tasks"]}
    assert (tasks["swe-rl__store-0"]["one"], tasks["swe-rl__store-0"]["other"]) == ([1, 1], [1, 1])
    assert (tasks["swe-rl__store-5"]["one"], tasks["swe-rl__store-5"]["other"]) == ([0, 1], [1, 1])


def test_job_without_held_out_evaluation_has_nothing_to_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_job(tmp_path / "training", steps=1, groups=1, size=2)
    write_held_out(tmp_path / "evaluated", 10, tasks=2, solved=1)
    assert main(["compare", str(tmp_path / "training"), str(tmp_path / "evaluated")]) == 1
    assert "no task has valid samples in both" in capsys.readouterr().out
