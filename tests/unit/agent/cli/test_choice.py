"""Which tasks and Pods the options choose, and what is answered to names that are not options here."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_agent.cli import main, parse
from swerl_agent.cli.former_names import COMMANDS
from swerl_agent.cli.pod_options import grading_settings, pod_settings, sandbox_settings
from swerl_agent.grading import Verdict
from swerl_agent.tasks import Task
from swerl_agent.tasks.sources import is_hub_name

from tests.unit.agent.tasks.rows import jsonl, swe_gym

ENGINE = ["--engine", "http://127.0.0.1:9", "--tokenizer", "/nowhere"]
RUN = ["eval", "run", "tasks", "--output", "out", *ENGINE]
ROW = {
    "repo": "kit/kit",
    "base_commit": "a" * 40,
    "problem_statement": "It breaks.",
    "patch": "diff --git a/x b/x\n",
    "eval_script": "true",
    "FAIL_TO_PASS": ["t::a"],
    "image": "swe-rl/task-kit:1",
}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(ROW | {"instance_id": f"kit__kit-{n}"}) + "\n" for n in range(4)))
    return path


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Ids and patches that `swerl grade` grades; each is resolved."""
    recorded: list[tuple[str, str]] = []

    class RecordingGrader(nullcontext[None]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()

        async def grade(self, task: Task, patch: str, *, fresh: bool) -> Verdict:
            recorded.append((task.instance_id, patch))
            return Verdict("resolved")

    opened = nullcontext(SimpleNamespace(namespace="n"))
    for name in ("open_client", "owning_lease"):
        monkeypatch.setattr(f"swerl_agent.cli.grade.{name}", lambda *args, **kwargs: opened)
    monkeypatch.setattr("swerl_agent.cli.grade.Grader", RecordingGrader)
    return recorded


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()]


def test_instances_are_chosen_by_id(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", str(tasks), "--instances", "kit__kit-3,kit__kit-0", "--instances", "kit__kit-1"]) == 0
    assert listed(capsys) == ["kit__kit-0", "kit__kit-1", "kit__kit-3"]
    assert main(["tasks", "list", str(tasks), "--instances", "kit__kit-1,kit__kit-9"]) == 2
    assert "no task kit__kit-9, or it is in quarantine (--instances)" in capsys.readouterr().err


def test_data_set_is_chosen_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [ROW | {"instance_id": f"kit__kit-{n}"} for n in (2, 1)]
    monkeypatch.setattr("swerl_agent.tasks.sources._from_hub", lambda source: rows)
    monkeypatch.chdir(tmp_path)
    assert main(["tasks", "list", "verified", "--slice", "0:1"]) == 0
    assert listed(capsys) == ["kit__kit-1"]
    assert main(["tasks", "list", "SWE-bench/SWE-bench_Lite"]) == 0
    assert len(listed(capsys)) == 2
    del rows[0]["patch"]
    assert main(["tasks", "list", "verified"]) == 2
    assert "1 malformed rows, the first: " in capsys.readouterr().err


def test_misspelt_path_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    names = ["tasks/trian", "train.jsonl", "rows/train.jsonl", "/tasks/train", "a/b/c", "tasks", "verifed"]
    assert [name for name in names if is_hub_name(name)] == []
    assert is_hub_name("SWE-Gym/SWE-Gym") and is_hub_name("Verified")


def test_gold_patches_of_the_chosen_tasks_are_graded(tasks: Path, tmp_path: Path, graded: list[Any]) -> None:
    command = ["grade", "--gold", "--tasks", str(tasks), "--slice", "0:2", "--output", str(tmp_path / "out")]
    assert main(command) == 0
    assert graded == [(f"kit__kit-{n}", ROW["patch"]) for n in (0, 1)]
    summary = json.loads((tmp_path / "out/gold.json").read_text())
    assert (summary["total_instances"], summary["resolved_ids"]) == (2, ["kit__kit-0", "kit__kit-1"])


def test_predictions_of_no_task_are_wrong_input_and_those_not_chosen_are_left(
    tasks: Path, tmp_path: Path, graded: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = tmp_path / "preds.json"
    command = ["grade", str(predictions), "--tasks", str(tasks), "--output", str(tmp_path / "out")]
    rows = [{"instance_id": f"kit__kit-{n}", "model_patch": "x"} for n in (1, 2)]
    predictions.write_text(json.dumps(rows))
    assert main([*command, "--instances", "kit__kit-2"]) == 0
    assert graded == [("kit__kit-2", "x")]
    predictions.write_text(json.dumps([*rows, {"instance_id": "other", "model_patch": "x"}]))
    assert main(command) == 2
    assert "no task has the id of these predictions: other" in capsys.readouterr().err
    assert graded[1:] == [("kit__kit-1", "x")], "the others are graded"


PODS = ["--workdir", "/src", "--runtime-class", "gvisor", "--pull-secret", "hub", "--node-selector", "pool=a"]


def test_pods_of_an_evaluation_are_options() -> None:
    plain = parse(RUN)
    assert sandbox_settings(plain).resources.limits["memory"] == "4Gi"
    assert grading_settings(plain, "grading_", jobs=4).contrast == "always"
    arguments = ["--sandbox-memory", "8Gi", "--grading-cpu", "2", "--grading-timeout", "60", "--contrast", "never"]
    options = parse([*RUN, *PODS, *arguments])
    sandbox, grading = sandbox_settings(options), grading_settings(options, "grading_", jobs=4)
    assert (sandbox.workdir, sandbox.runtime_class_name, sandbox.pull_secrets) == ("/src", "gvisor", ["hub"])
    assert (sandbox.node_selector, sandbox.resources.requests["memory"]) == ({"pool": "a"}, "8Gi")
    assert sandbox.resources.limits == {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "10Gi"}
    assert (grading.resources.limits["cpu"], grading.timeout_seconds, grading.contrast) == ("2", 60, "never")


@pytest.mark.parametrize("command", [["grade", "p.json", "--tasks", "t"], ["tasks", "check", "t"]])
def test_pods_of_gradings_are_options(command: list[str]) -> None:
    options = parse([*command, *PODS, "--contrast", "never", "--timeout", "60"])
    assert pod_settings(options).pull_secrets == ["hub"]
    assert grading_settings(options, jobs=2).timeout_seconds == 60


def test_invalid_value_is_one_clear_line(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--gold", "--tasks", str(tasks), "--kubeconfig", "/nowhere", "--workdir", "src"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("swerl: ")]
    assert "invalid sandbox options: workdir" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--cpu", "lots"],
            "'--cpu': 'lots' is not a Kubernetes quantity above 0, such as 500m or 2Gi",
        ),
        (["--memory", "-1"], "Invalid value for '--memory': '-1' is not a Kubernetes quantity above 0"),
        (["--memory", "0Gi"], "Invalid value for '--memory': '0Gi' is not a Kubernetes quantity above 0"),
        (["--timeout", "-3"], "Invalid value for '--timeout': -3 is not positive"),
        (["--jobs", "x"], "Invalid value for '--jobs' / '-j': 'x' is not a whole number"),
        (["--contrast", "perhaps"], "Invalid value for '--contrast': 'perhaps' is not one of"),
    ],
)
def test_value_out_of_range_is_wrong_usage_in_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", "p.json", "--tasks", "t", *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line and line.startswith("swerl grade: ")


def test_amount_of_a_sandbox_is_checked() -> None:
    assert main([*RUN, "--sandbox-cpu", "2 cores"]) == 2


def test_rows_as_their_data_set_has_them_are_graded_without_an_import(tmp_path: Path, graded: list[Any]) -> None:
    source = jsonl(tmp_path / "rows.jsonl", swe_gym())
    command = ["grade", "--gold", "--tasks", str(source), "--output", str(tmp_path / "out")]
    assert main(command) == 2, "no naming rule for images without a data source"
    assert main([*command, "--data-source", "SWE-Gym/SWE-Gym"]) == 0
    assert [name for name, _ in graded] == ["getmoto__moto-5876"]


def test_scripts_of_raw_rows_may_come_from_another_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "kit__kit-1"
    row = {key: value for key, value in (ROW | {"instance_id": name}).items() if key != "eval_script"}
    rows = jsonl(tmp_path / "rows.jsonl", row)
    assert main(["tasks", "list", str(rows)]) == 2
    assert "no eval script: the row has no column eval_script" in capsys.readouterr().err
    scripts = jsonl(tmp_path / "scripts.jsonl", {"instance_id": name, "eval_script": "true"})
    assert main(["tasks", "list", str(rows), "--eval-scripts", str(scripts)]) == 0
    assert listed(capsys) == [name]


def test_options_of_other_programs_are_answered_with_the_own_ones(capsys: pytest.CaptureFixture[str]) -> None:
    old = ["--data", "x.jsonl", "--api-base=http://h/v1", "--max-concurrent", "8", "--temperature", "0"]
    assert main(["eval", "run", *old]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "swerl: --data is here: the first argument, without an option name",
        "swerl: --api-base is here: --engine URL with --api chat-completions",
        "swerl: --max-concurrent is here: --workers N",
    ]
    assert main(["grade", "--predictions_path", "gold", "--max_workers", "4"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "old"),
    [pytest.param(command, old, id=f"{command[0]} {old}") for command, names in COMMANDS.items() for old in names],
)
def test_each_option_of_other_programs_is_answered(
    command: tuple[str, ...], old: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = f"is here: {COMMANDS[command][old]}\n"
    assert main([*command, old, "x"]) == 2
    assert capsys.readouterr().err == f"swerl: {old} {answer}"
    written = old[:2] + old[2:].replace("-", "_")
    assert main([*command, f"{written}=x"]) == 2
    assert capsys.readouterr().err == f"swerl: {written} {answer}"


def test_mapped_options_of_other_programs_are_no_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    for command, names in COMMANDS.items():
        assert main([*command, "--help"]) == 0
        columns = capsys.readouterr().out.replace(",", " ").split()
        assert not set(names) & set(columns)
