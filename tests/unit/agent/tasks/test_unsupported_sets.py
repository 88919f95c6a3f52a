"""Published sets that need other columns are refused by name in one line; halves of files name what is missing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from swerl_agent.tasks import TaskError, load_tasks
from swerl_agent.tasks.unsupported_sets import FAMILIES, UNSUPPORTED

from .conftest import Run
from .rows import jsonl, swe_gym

ROW = {
    "instance_id": "o__r-1",
    "repo": "o/r",
    "base_commit": "a" * 40,
    "problem_statement": "It breaks.",
    "patch": "diff --git a/x b/x\n",
    "FAIL_TO_PASS": ["t::a"],
}


PUBLISHED = (
    *("SWE-bench-Live/SWE-bench-Live", "SWE-bench-Live/MultiLang", "SWE-bench-Live/Windows"),
    *("SWE-bench/SWE-smith-py", "SWE-bench/SWE-smith-go", "SWE-bench/SWE-smith-java", "SWE-bench/SWE-smith-rs"),
    *("SWE-bench/SWE-bench_Multimodal", "princeton-nlp/SWE-bench_Multimodal", "ScaleAI/SWE-bench_Pro"),
)


@pytest.mark.parametrize("name", [*PUBLISHED, *(f"Owner/{name.upper()}" for name in sorted(UNSUPPORTED | FAMILIES))])
def test_set_is_refused_by_name_in_one_line(tmp_path: Path, run_import: Run, name: str) -> None:
    rows = [ROW | {"instance_id": f"o__r-{n}"} for n in range(3)]
    source = jsonl(tmp_path / "rows.jsonl", *rows)
    lines = run_import(source, "--data-source", name, code=2)
    assert f"{name} is not supported as it is: " in lines[0] and lines[0].endswith("(and 2 more rows)")
    assert len(lines) == 2, "the other one says that nothing was written"


def test_complete_rows_are_accepted_from_any_set(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    source = jsonl(tmp_path / "rows.jsonl", ROW | {"eval_script": "true", "image": "own/image:1"})
    run_import(source, "--data-source", "nebius/SWE-rebench-V2")
    assert [task.image for task in load_tasks(output_file, "jsonl")] == ["own/image:1"]


def test_set_of_a_similar_name_is_not_refused(tmp_path: Path, run_import: Run) -> None:
    source = jsonl(tmp_path / "rows.jsonl", ROW | {"image": "own/image:1"})
    lines = run_import(source, "--data-source", "own/SWE-smithy", code=2)
    assert not any("not supported as it is" in line for line in lines)


def test_rows_of_other_kinds_in_a_blend_are_named(tmp_path: Path, run_import: Run) -> None:
    source = jsonl(tmp_path / "rows.jsonl", {"problem_statement": "2 + 2"})
    lines = run_import(source, "--data-source", "nvidia/Nemotron-RL-blend", code=2)
    assert "holds rows of several kinds, and this is not a task" in lines[0]


def test_file_without_its_grading_half_names_the_missing_file(
    tmp_path: Path, output_file: Path, run_import: Run
) -> None:
    run_import(jsonl(tmp_path / "rows.jsonl", swe_gym()), "--data-source", "SWE-Gym/SWE-Gym")
    half = output_file.with_name(f"{output_file.stem}.grading.jsonl")
    half.unlink()
    with pytest.raises(TaskError, match=r"the file is missing: .*\.grading\.jsonl, which holds"):
        load_tasks(output_file, "jsonl")
    lines = run_import(output_file, code=2)
    assert str(half) in lines[0]


def test_error_has_its_place_and_its_reason_apart() -> None:
    error = TaskError("field x is missing", "rows.jsonl:3")
    unpickled = pickle.loads(pickle.dumps(error))
    assert (error.place, error.reason, str(error)) == ("rows.jsonl:3", "field x is missing", str(unpickled))
    assert json.dumps(str(TaskError("alone"))) == '"alone"'
