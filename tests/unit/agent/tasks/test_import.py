"""`swerl tasks import` and `export`, on rows stored as the public data sets store theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.tasks import load_tasks

from .conftest import Run
from .rows import (
    FIX,
    SCRIPT,
    SECRET,
    TESTS,
    jsonl,
    kiro,
    nemo_gym,
    parquet,
    princeton,
    prompt_line,
    r2e,
    sumanth,
    swebench,
)
from .rows import text_line as text

GYM_IMAGE = "docker.io/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5876:latest"
BENCH_IMAGE = "docker.io/swebench/sweb.eval.x86_64.django_1776_django-13820:latest"
OTHER = "python__mypy-11213"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_swe_gym_rows_become_tasks_with_their_public_image(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", sumanth()), "--data-source", "SumanthRH/SWE-Gym-Subset")
    (task,) = load_tasks(output_file, "jsonl", purpose="train")
    assert task.image == GYM_IMAGE
    assert task.problem_statement == "The pool is created twice — see below."
    assert (task.ground_truth.patch, task.ground_truth.test_patch, task.ground_truth.eval_script) == (
        FIX,
        TESTS,
        SCRIPT,
    )
    assert task.ground_truth.fail_to_pass == (f"tests/t.py::test_{SECRET}",)


def test_training_file_holds_no_ground_truth(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    rows = [sumanth(), sumanth(OTHER)]
    run_import(jsonl(tmp_path / "a.jsonl", *rows), "--data-source", "swe-gym")
    assert SECRET not in output_file.read_text()
    grading = read(output_file.with_name("train.grading.jsonl"))
    assert [row["instance_id"] for row in grading] == ["getmoto__moto-5876", OTHER]
    assert all(row["patch"] == FIX and row["eval_script"] == SCRIPT for row in grading)
    assert "problem_statement" not in grading[0]


def test_text_format(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", sumanth()), "--data-source", "SumanthRH/SWE-Gym-Subset", "--whole-rows")
    (line,) = read(output_file)
    assert "—" in output_file.read_text(encoding="utf-8"), "unescaped"
    assert line["text"] == sumanth()["problem_statement"]
    assert line["metadata"]["data_source"] == "SumanthRH/SWE-Gym-Subset"
    assert line["metadata"]["instance"].items() >= {**sumanth(), "image_name": GYM_IMAGE}.items()


def test_prompt_format(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(
        jsonl(tmp_path / "a.jsonl", sumanth()),
        *("--data-source", "SWE-Gym/SWE-Gym", "--split", "train", "--format", "prompt", "--whole-rows"),
    )
    (line,) = read(output_file)
    assert line["prompt"] == sumanth()["problem_statement"]
    assert line["metadata"].items() >= {
        **sumanth(), "subset": "gym", "split": "train", "agent_name": "mini-swe-agent",
    }.items()  # fmt: skip


@pytest.mark.parametrize("format", ["text", "prompt"])
@pytest.mark.parametrize("options", [[], ["--whole-rows"]])
def test_written_tasks_are_read_unchanged(
    tmp_path: Path, output_file: Path, run_import: Run, format: str, options: list[str]
) -> None:
    patch_with_odd_bytes = FIX.encode().replace(b"+a", b"\xff").decode("utf-8", "surrogateescape") + "\udcff\r\n"
    first = jsonl(tmp_path / "a.jsonl", sumanth(patch="")).with_name("b.jsonl")
    first.write_text(json.dumps(sumanth(patch=patch_with_odd_bytes)) + "\n" + json.dumps(r2e()) + "\n")
    run_import(first, "--data-source", "swe-gym", "--format", format, *options)
    tasks_before = load_tasks(output_file, "jsonl")
    second_file = tmp_path / "again.jsonl"
    assert main(["tasks", "import", str(output_file), "--output", str(second_file)]) == 0
    assert load_tasks(second_file, "jsonl") == tasks_before
    assert tasks_before[0].ground_truth.patch == patch_with_odd_bytes
    assert tasks_before[1].hidden_paths


@pytest.mark.parametrize(
    ("row", "image"),
    [
        (text(sumanth(), "SumanthRH/SWE-Gym-Subset"), GYM_IMAGE),
        (prompt_line(sumanth(), "gym", "train"), GYM_IMAGE),
        (kiro(sumanth(), "swe-gym"), GYM_IMAGE),
        (nemo_gym(sumanth(), "SWE-Gym/SWE-Gym", "train"), GYM_IMAGE),
        (kiro(swebench(), "swe-bench"), "swebench/sweb.eval.x86_64.django_1776_django-13820:latest"),
        (text({**princeton(), "eval_script": SCRIPT}, "princeton-nlp/SWE-bench_Lite"), BENCH_IMAGE),
        (nemo_gym({**princeton(), "eval_script": SCRIPT}, "princeton-nlp/SWE-bench_Verified", "test"), BENCH_IMAGE),
        (
            {"instruction": "It breaks.", **{k: v for k, v in swebench().items() if k != "problem_statement"}},
            "swebench/sweb.eval.x86_64.django_1776_django-13820:latest",
        ),
    ],
)
@pytest.mark.parametrize("store", [jsonl, parquet])
def test_every_shape_of_row_is_read(
    tmp_path: Path, output_file: Path, run_import: Run, store: Callable[..., Path], row: dict[str, Any], image: str
) -> None:
    suffix = "parquet" if store is parquet else "jsonl"
    run_import(store(tmp_path / f"a.{suffix}", row), "--purpose", "evaluation")
    (task,) = load_tasks(output_file, "jsonl")
    assert task.image == image
    assert task.ground_truth.patch == FIX
    assert task.ground_truth.pass_to_pass == (f"tests/t.py::test_{SECRET}_too",)
    assert task.problem_statement


def test_r2e_rows_name_image_tests_and_fix(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    first, second = r2e(), r2e("f" * 40)
    run_import(parquet(tmp_path / "r2e.parquet", first, second))
    tasks = load_tasks(output_file, "jsonl", purpose="train")
    assert [task.instance_id for task in tasks] == [f"orange3-{first['commit_hash']}", f"orange3-{'f' * 40}"]
    task = tasks[0]
    assert task.image == first["docker_image"]
    assert task.problem_statement == "The table is empty."
    assert dict(task.ground_truth.expected_output) == {
        f"TestTable.test_{SECRET}": "PASSED",
        "TestTable.test_old": "FAILED",
    }
    assert {"/r2e_tests", "/testbed/run_tests.sh"} <= set(task.hidden_paths)
    assert "tests/test_table.py" not in task.ground_truth.patch


def test_fix_of_an_r2e_row_applies(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "r2e.jsonl", r2e()))
    (task,) = load_tasks(output_file, "jsonl")
    (tmp_path / "orange").mkdir()
    (tmp_path / "orange" / "table.py").write_text("a = 1\nb = 2")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=task.ground_truth.patch, text=True, check=True)
    assert (tmp_path / "orange" / "table.py").read_text() == f"a = 1\nb = '{SECRET}_fix'\n"
    assert (tmp_path / "orange" / "new.py").read_text() == f"# {SECRET}_fix\n"


def test_kiro_r2e_id_gets_the_tag_of_its_image(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    rows = [kiro(r2e(commit, instance_id="orange3"), "r2e-gym") for commit in ("1" * 40, "2" * 40)]
    run_import(parquet(tmp_path / "r2e.parquet", *rows))
    assert [task.instance_id for task in load_tasks(output_file, "jsonl")] == [f"orange3-{tag * 40}" for tag in "12"]


def test_images_are_rewritten_at_import(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    rows = jsonl(tmp_path / "a.jsonl", sumanth())
    run_import(rows, "--data-source", "swe-gym", "--registry-rewrite", "docker.io/=mirror.example:5000/")
    expected = "mirror.example:5000/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5876:latest"
    assert load_tasks(output_file, "jsonl")[0].image == expected


def test_rows_are_appended_once(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    first, second = jsonl(tmp_path / "a.jsonl", sumanth()), jsonl(tmp_path / "b.jsonl", sumanth(OTHER))
    run_import(first, "--data-source", "swe-gym", "--append")
    text_before = output_file.read_text()
    run_import(second, "--data-source", "swe-gym", "--append")
    assert output_file.read_text().startswith(text_before)
    assert len(load_tasks(output_file, "jsonl")) == 2
    (error,) = run_import(first, "--data-source", "swe-gym", "--append", code=2)
    assert error.endswith(f"instance_id getmoto__moto-5876 is in {output_file} already")
    (error,) = run_import(first, "--data-source", "swe-gym", "--append", "--whole-rows", code=2)
    assert "written the other way" in error
    assert len(load_tasks(output_file, "jsonl")) == 2


def test_quarantined_tasks_are_left_out(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    rows = jsonl(tmp_path / "a.jsonl", sumanth(), sumanth(OTHER))
    quarantine = jsonl(tmp_path / "quarantine.jsonl", {"instance_id": OTHER, "reason": "flaky"})
    run_import(rows, "--data-source", "swe-gym", "--quarantine", quarantine)
    assert [task.instance_id for task in load_tasks(output_file, "jsonl")] == ["getmoto__moto-5876"]


@pytest.mark.parametrize("source", [".", "a.jsonl"])
def test_quarantine_file_beside_the_tasks_always_applies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    jsonl(tmp_path / "a.jsonl", sumanth(image="calc:1"), sumanth(OTHER, image="calc:1"))
    jsonl(tmp_path / "quarantine.jsonl", {"instance_id": OTHER, "reason": "flaky"}, {"instance_id": "not-here"})
    tasks = load_tasks(tmp_path / source, "jsonl", purpose="train")
    assert [task.instance_id for task in tasks] == ["getmoto__moto-5876"]
    assert f"1 of 2 tasks at {tmp_path / source} are in quarantine: {OTHER}" in caplog.text


def test_export_writes_ids_images_and_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = jsonl(tmp_path / "a.jsonl", swebench(), swebench("astropy__astropy-1", image=swebench()["image"]))
    folder = tmp_path / "assets"
    assert main(["tasks", "export", str(rows), "--output", str(folder), "--data-source", "verified"]) == 0
    assert (folder / "instance_ids.txt").read_text() == "django__django-13820\nastropy__astropy-1\n"
    assert (folder / "docker_images.txt").read_text() == f"{swebench()['image']}\n"
    assert len(load_tasks(folder / "verified_eval.jsonl", "jsonl")) == 2
    assert "verified_eval.grading.jsonl" in capsys.readouterr().out


def test_heavy_packages_are_loaded_only_when_needed(tmp_path: Path) -> None:
    rows = jsonl(tmp_path / "a.jsonl", sumanth())
    program = (
        "import sys; from swerl_agent.cli import main; code = main(sys.argv[1:]);"
        " sys.exit(code or any(name in sys.modules for name in ('datasets', 'pyarrow', 'pandas', 'torch')))"
    )
    command = ["tasks", "import", str(rows), "--data-source", "swe-gym", "--output", str(tmp_path / "out.jsonl")]
    assert subprocess.run([sys.executable, "-c", program, *command]).returncode == 0
