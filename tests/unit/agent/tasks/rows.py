"""Rows as the public data sets have them, small; everything that only grading may know holds the word SECRET."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SECRET = "quokka"  # in the reference fix, the tests, their names, the hints, the script
FIX = f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+{SECRET}_fix\n"
TESTS = f"diff --git a/tests/t.py b/tests/t.py\n--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-a\n+{SECRET}_test\n"
SCRIPT = f"#!/bin/bash\nset -uxo pipefail\n# {SECRET}_script\npytest -rA tests/t.py\n"


def swe_gym(instance_id: str = "getmoto__moto-5876", **changes: Any) -> dict[str, Any]:
    """A row of SWE-Gym: lists of tests, no eval script."""
    repo = instance_id.rpartition("-")[0].replace("__", "/")
    return {
        "instance_id": instance_id,
        "repo": repo,
        "base_commit": "a" * 40,
        "version": "4.1",
        "created_at": "2023-01-24 00:14:27",
        "problem_statement": "The pool is created twice — see below.",
        "hints_text": f"{SECRET}_hint",
        "patch": FIX,
        "test_patch": TESTS,
        "FAIL_TO_PASS": [f"tests/t.py::test_{SECRET}"],
        "PASS_TO_PASS": [f"tests/t.py::test_{SECRET}_too"],
        **changes,
    }


def sumanth(instance_id: str = "getmoto__moto-5876", **changes: Any) -> dict[str, Any]:
    """A row of SumanthRH's variants: SWE-Gym's columns and an eval script."""
    return {**swe_gym(instance_id), "eval_script": SCRIPT, **changes}


def princeton(instance_id: str = "django__django-13820", **changes: Any) -> dict[str, Any]:
    """A row of princeton-nlp's SWE-bench sets: lists of tests as JSON strings, no eval script."""
    row = swe_gym(instance_id)
    tests = {key: json.dumps(row[key]) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    return {**row, **tests, "environment_setup_commit": "b" * 40, "difficulty": "15 min - 1 hour", **changes}


def swebench(instance_id: str = "django__django-13820", **changes: Any) -> dict[str, Any]:
    """A row of the SWE-bench organisation's sets as swebench 5.x reads them: everything in it."""
    name = instance_id.replace("__", "_1776_")
    image = f"swebench/sweb.eval.x86_64.{name}:latest"
    names = {"image": image, "log_parser": "parse_log_django", "eval_type": "pass_and_fail"}
    return {**princeton(instance_id), "eval_script": SCRIPT, **names, **changes}


def r2e(commit: str = "2d9617bd0cb1f0ba61771258410ab8fae8e7e24d", **changes: Any) -> dict[str, Any]:
    """A row of R2E-Gym: a commit with its files, the outcome of every test, an image that holds the tests."""

    def change(path: str, old: str, new: str) -> dict[str, Any]:
        return {"header": {"file": {"path": path}}, "old_file_content": old, "new_file_content": new}

    files = [
        change("orange/table.py", "a = 1\nb = 2", f"a = 1\nb = '{SECRET}_fix'\n"),
        change("orange/new.py", "", f"# {SECRET}_fix\n"),
        change("orange/tests/test_table.py", "x\n", f"{SECRET}_test\n"),
    ]
    outcomes = {f"TestTable.test_{SECRET}": "PASSED", "\x1b[31mTestTable.test_old - why\x1b[0m": "FAILED"}
    return {
        "repo_name": "orange3",
        "docker_image": f"namanjain12/orange3_final:{commit}",
        "commit_hash": commit,
        "parsed_commit_content": json.dumps({"file_diffs": files, "old_commit_hash": f"{commit}^"}),
        "execution_result_content": json.dumps({"test_file_codes": [f"{SECRET}_test"]}),
        "expected_output_json": json.dumps(outcomes),
        "modified_files": ["orange/table.py"],
        "problem_statement": "[ISSUE]\nThe table is empty.\n[/ISSUE]",
        "prompt": f"write an issue for {SECRET}",
        **changes,
    }


def nemo_gym(row: dict[str, Any], dataset: str, split: str) -> dict[str, Any]:
    """`row` as NeMo Gym and Nemotron's data have it."""
    metadata = {
        "instance_id": row["instance_id"],
        "base_commit": row["base_commit"],
        "dataset_name": dataset,
        "split": split,
        "problem_statement": row["problem_statement"],
        "golden_patch": row["patch"],
        "instance_dict": json.dumps(row),
    }
    request = {"input": [], "metadata": metadata, "model": "m", "temperature": 1.0}
    return {"responses_create_params": request, "agent_ref": {"type": "responses_api_agents", "name": "swe_agents"}}


def kiro(row: dict[str, Any], source: str) -> dict[str, Any]:
    """`row` in the parquet schema of clusters that train from it."""
    prompt = [{"role": "user", "content": row["problem_statement"]}]
    instance = {**row, "instance_id": row["instance_id"].lower()} if "instance_id" in row else row
    return {"prompt": prompt, "data_source": source, "ability": "coding", "instance": instance}


def text_line(row: dict[str, Any], source: str) -> dict[str, Any]:
    """`row` as slime and OpenClaw read it."""
    return {"text": row["problem_statement"], "metadata": {"instance": row, "data_source": source}}


def prompt_line(row: dict[str, Any], subset: str, split: str) -> dict[str, Any]:
    """`row` as miles reads it."""
    columns = {key: value for key, value in row.items() if key != "problem_statement"}
    return {"prompt": row["problem_statement"], "metadata": {**columns, "subset": subset, "split": split}}


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    """`rows` as a file of JSON Lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(path: Path, *rows: dict[str, Any]) -> Path:
    """`rows` as `datasets` stores them."""
    import datasets

    datasets.Dataset.from_list(list(rows)).to_parquet(str(path))
    return path
