"""Rows of SWE-rebench: test command, parser and work folder are the row's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.grading.swebench_report import grade_log
from swerl_agent.tasks import Task, load_tasks

from tests.unit.docs.pages import command_of

from .conftest import Publish, Run
from .rows import jsonl, parquet, swe_gym
from .test_test_specs import PATCH

COMMANDS = ["printf '%s\\n' 'PASSED t::fixed'", "printf '%s\\n' 'PASSED t::kept'; cat tests/t.py"]


def v2(**changes: Any) -> dict[str, Any]:
    """A row of SWE-rebench-V2 of the repository `owner/tool`."""
    config = {"base_image_name": "c", "docker_specs": {"go": None}, "install": ["make"], "test_cmd": COMMANDS}
    return {
        **swe_gym("owner__tool-7"),
        "image_name": "docker.io/swerebenchv2/owner-tool:7-2ab",
        "install_config": {**config, "log_parser": "parse_log_pytest"},
        "FAIL_TO_PASS": ["t::fixed"],
        "PASS_TO_PASS": ["t::kept"],
        "meta": {"pr_url": None},
        **changes,
    }


def imported(output_file: Path, run_import: Run, source: Path, name: str = "nebius/SWE-rebench-V2") -> Task:
    run_import(source, "--data-source", name)
    (task,) = load_tasks(output_file, "jsonl", purpose="train")
    return task


@pytest.mark.parametrize("kind", [jsonl, parquet])
def test_a_row_of_v2_brings_its_parser_command_and_folder(
    tmp_path: Path, output_file: Path, run_import: Run, kind: Any
) -> None:
    task = imported(output_file, run_import, kind(tmp_path / f"rows.{kind.__name__}", v2()))
    assert (task.workdir, task.image) == ("/tool", "docker.io/swerebenchv2/owner-tool:7-2ab")
    assert task.ground_truth.log_parser == "parse_log_pytest"
    script = task.ground_truth.eval_script
    assert "cd /tool\n" in script and "conda" not in script and "/testbed" not in script


def test_the_script_of_v2_runs_all_commands_on_the_patched_tests(
    tmp_path: Path, output_file: Path, run_import: Run
) -> None:
    tree = tmp_path / "tool"
    (tree / "tests").mkdir(parents=True)
    (tree / "tests/t.py").write_text("a\n")
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "base"]):
        subprocess.run([*git, *arguments], check=True)
    base = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    patch = PATCH.partition("diff --git a/tests/new")[0]
    task = imported(output_file, run_import, jsonl(tmp_path / "rows.jsonl", v2(base_commit=base, test_patch=patch)))
    script = task.ground_truth.eval_script.replace("/tool\n", f"{tree}\n").replace("--global", "--local")
    done = subprocess.run(["bash", "-c", script], text=True, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert grade_log(task, done.stdout.encode())["resolved"]
    assert "\nb\n" in done.stdout, "the test patch was there"
    assert (tree / "tests/t.py").read_text() == "a\n"


def test_a_row_of_the_first_set_runs_its_command_on_the_test_files(
    tmp_path: Path, output_file: Path, run_import: Run
) -> None:
    config = {
        "python": "3.9",
        "install": "pip install -e .[dev]",
        "test_cmd": "pytest -rA",
        "log_parser": "parse_log_pytest",
    }
    row = v2(
        install_config=json.dumps(config), docker_image="swerebench/sweb.eval.x86_64.owner_1776_tool-7", image_name=""
    )
    task = imported(output_file, run_import, jsonl(tmp_path / "rows.jsonl", row), "nebius/SWE-rebench")
    assert task.workdir == "/testbed"
    script = task.ground_truth.eval_script
    assert "conda activate testbed\ncd /testbed\n" in script and "\npip install -e .[dev]\n" in script
    assert "\npytest -rA tests/t.py\n" in script


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_parser": "parse_log_elixir"}, "log_parser parse_log_elixir is none of swebench's"),
        ({"log_parser": None}, "field install_config.log_parser is missing"),
        ({"test_cmd": []}, "field install_config.test_cmd is missing"),
    ],
)
def test_a_row_that_nothing_here_grades_is_refused_in_one_line(
    tmp_path: Path, run_import: Run, change: dict[str, Any], message: str
) -> None:
    rows = [v2(install_config=v2()["install_config"] | change, instance_id=f"owner__tool-{n}") for n in range(3)]
    lines = run_import(jsonl(tmp_path / "rows.jsonl", *rows), "--data-source", "nebius/SWE-rebench-V2", code=2)
    assert message in lines[0] and lines[0].endswith("(and 2 more rows)")
    assert len(lines) == 2, "the other one says that nothing was written"


def test_rows_that_cannot_be_graded_are_left_out_on_demand(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    other_row = v2(instance_id="owner__tool-8", install_config=v2()["install_config"] | {"log_parser": "parse_log_lua"})
    source = jsonl(tmp_path / "rows.jsonl", v2(), other_row)
    run_import(source, "--data-source", "nebius/SWE-rebench-V2", "--keep-going", code=1)
    assert [task.instance_id for task in load_tasks(output_file, "jsonl")] == ["owner__tool-7"]


def test_documented_command_imports_the_published_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: Publish
) -> None:
    publish("nebius/SWE-rebench-V2", "train", v2())
    monkeypatch.chdir(tmp_path)
    assert main(command_of("docs/tasks.md", "swerl", "tasks", "import", "nebius/SWE-rebench-V2")[1:]) == 0
    assert [task.workdir for task in load_tasks(Path("train.jsonl"), "jsonl")] == ["/tool"]
