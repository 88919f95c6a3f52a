"""What `swerl tasks import` refuses, in one clear line each, and that nothing is lost by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.tasks import TaskError, load_tasks

from .conftest import Run
from .rows import jsonl, nemo_gym, prompt_line, r2e, sumanth, swe_gym, swebench
from .rows import text_line as text

OTHER = "python__mypy-11213"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "a row must be a JSON object"),
        (b"\xff\n", "not UTF-8"),
        (json.dumps(sumanth(patch=None)), "field patch is missing"),
        (json.dumps(sumanth(repo=7)), "field repo is int, not a string"),
        (json.dumps(sumanth(FAIL_TO_PASS="x")), "field FAIL_TO_PASS is text that is neither JSON nor a Python literal"),
        (json.dumps(sumanth(FAIL_TO_PASS=[])), "FAIL_TO_PASS is empty"),
        (json.dumps(sumanth(PASS_TO_PASS={"a": 1})), "field PASS_TO_PASS must be a list"),
        (json.dumps({"metadata": {"instance": 5}}), "field instance is int"),
        (
            json.dumps(r2e(expected_output_json="{")),
            "field expected_output_json is text that is neither JSON nor a Python literal",
        ),
        (json.dumps(r2e(parsed_commit_content='{"file_diffs": [5]}')), "field parsed_commit_content does not hold"),
        (json.dumps(swe_gym(OTHER)), "no eval script: the row has no column eval_script"),
        (json.dumps(sumanth()), "instance_id getmoto__moto-5876 was given before, at"),
        (
            json.dumps(text(sumanth(OTHER), "unknown/set")),
            "no image: .*no naming rule is known for data source 'unknown/set'",
        ),
    ],
)
def test_malformed_row_is_one_line_with_its_place(
    tmp_path: Path, output_file: Path, run_import: Run, line: str | bytes, message: str
) -> None:
    run_import(jsonl(tmp_path / "good.jsonl", sumanth(OTHER)), "--data-source", "swe-gym")
    text_before = output_file.read_text()
    bad = jsonl(tmp_path / "bad.jsonl", sumanth())
    with bad.open("ab") as file:
        file.write(b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n")
        file.write(json.dumps(sumanth("getmoto__moto-1")).encode() + b"\n")
    problem, summary = run_import(bad, "--data-source", "swe-gym", code=2)
    with pytest.raises(TaskError, match=rf"bad\.jsonl:3: .*{message}"):
        raise TaskError(problem)
    assert "1 malformed rows, 2 good; nothing was written" in summary
    assert output_file.read_text() == text_before, "what was there is as it was"
    run_import(bad, "--data-source", "swe-gym", "--keep-going", code=1)
    assert {task.instance_id for task in load_tasks(output_file, "jsonl")} == {"getmoto__moto-5876", "getmoto__moto-1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/a.jsonl"], "no such file or folder, and no Hugging Face id"),
        (["not-an-id"], "no such file or folder"),
        (["{rows}", "--filter", "("], "filter '(' is not a regular expression"),
        (["{rows}", "--filter", "nothing"], "no task is left"),
        (["{rows}", "--eval-scripts", "{rows}"], "has no column eval_script"),
        (["{rows}", "--quarantine", "/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_wrong_request_is_one_clear_line(tmp_path: Path, run_import: Run, arguments: list[str], message: str) -> None:
    rows = jsonl(tmp_path / "a.jsonl", swe_gym())
    errors = run_import(*[argument.replace("{rows}", str(rows)) for argument in arguments], code=2)
    assert len(errors) == 1
    assert message in errors[0]


def test_damaged_parquet_file_is_named(tmp_path: Path, run_import: Run) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    (error,) = run_import(tmp_path / "a.parquet", code=2)
    assert "a.parquet: cannot be read as Parquet" in error


def test_without_network_the_message_names_the_remedy(output_file: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "swerl_agent.cli",
        "tasks",
        "import",
        "SWE-Gym/no-such-set",
        "--output",
        str(output_file),
    ]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}  # datasets reads it when it is imported
    done = subprocess.run(command, capture_output=True, text=True, env=offline)
    (error,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "data set SWE-Gym/no-such-set, split 'train', cannot be loaded" in error
    assert ".jsonl or .parquet" in error


def test_full_disk_loses_nothing(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", sumanth()), "--data-source", "swe-gym")
    contents_before = {path: path.read_bytes() for path in output_file.parent.iterdir()}
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "a.jsonl"), str(output_file)], capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written: File too large; its previous content is unchanged" in done.stderr
    assert {path: path.read_bytes() for path in output_file.parent.iterdir()} == contents_before


_LIMITED = """
import resource, signal, sys
from swerl_agent.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
sys.exit(main(["tasks", "import", sys.argv[1], "--data-source", "swe-gym", "--output", sys.argv[2]]))
"""


@pytest.mark.parametrize(
    "row",
    [
        text(sumanth("django__django-13820"), "SumanthRH/SWE-bench_Verified"),
        text(sumanth("django__django-13820"), "princeton-nlp/SWE-bench_Lite"),
        prompt_line(sumanth("django__django-13820"), "verified", "train"),
        nemo_gym(sumanth("django__django-13820"), "SWE-bench/SWE-bench_Multilingual", "test"),
        swebench(),  # a file that was saved from the set names no source
    ],
)
def test_training_on_a_benchmark_needs_the_explicit_flag(
    tmp_path: Path, output_file: Path, run_import: Run, row: dict[str, Any]
) -> None:
    rows = jsonl(tmp_path / "a.jsonl", row)
    (error,) = run_import(rows, code=2)
    assert "1 tasks are of a benchmark" in error
    with pytest.raises(TaskError, match="of a benchmark"):
        load_tasks(rows, "jsonl", purpose="train")
    run_import(rows, "--purpose", "evaluation")
    assert len(load_tasks(output_file, "jsonl")) == 1
    with pytest.raises(TaskError, match="of a benchmark"):
        load_tasks(output_file, "jsonl", purpose="train")
    run_import(rows, "--train-on-benchmark")
    assert len(load_tasks(output_file, "jsonl", purpose="train")) == 1


def test_training_part_of_swe_bench_is_no_benchmark(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    rows = jsonl(tmp_path / "a.jsonl", sumanth("django__django-1"))
    run_import(rows, "--data-source", "swe-bench", "--split", "train")
    assert len(output_file.read_text().splitlines()) == 1


def test_another_set_may_hold_the_same_repository(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", swebench()), "--data-source", "own")
    assert len(output_file.read_text().splitlines()) == 1


def test_lost_grading_half_is_named(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", sumanth()), "--data-source", "swe-gym")
    grading = output_file.with_name("train.grading.jsonl")
    jsonl(grading, {"instance_id": "another__one-1"})
    with pytest.raises(TaskError, match=r"train\.jsonl:1: .*next to it has no row for 'getmoto__moto-5876'"):
        load_tasks(output_file, "jsonl")
    grading.unlink()
    with pytest.raises(TaskError, match=r"train\.jsonl:1: the file is missing: .*train\.grading\.jsonl"):
        load_tasks(output_file, "jsonl")


def test_error_of_many_rows_is_one_line_with_their_count(tmp_path: Path, run_import: Run) -> None:
    rows = [swe_gym(f"a__b-{number}", repo="a/b") for number in range(2438)]
    first, summary = run_import(jsonl(tmp_path / "a.jsonl", *rows), "--data-source", "swe-gym", code=2)
    assert "a.jsonl:1: no eval script: the row has no column eval_script, and no test spec of repository 'a/b'" in first
    assert first.endswith("(and 2,437 more rows)")
    assert "no task is left of 2438 rows chosen" in summary


def test_checkout_without_a_path_is_warned_of(tmp_path: Path, run_import: Run) -> None:
    script = f"cd /testbed\ngit checkout {'a' * 40}\npytest\n"
    (warning,) = run_import(jsonl(tmp_path / "a.jsonl", sumanth(eval_script=script)), "--data-source", "swe-gym")
    assert "a.jsonl:1: warning: its eval script runs `git checkout aaaa" in warning
