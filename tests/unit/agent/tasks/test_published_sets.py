"""Published sets without eval scripts, imported by short name or id with one command: scripts, images and parsers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.tasks import Task, load_tasks
from swerl_agent.tasks.sources import NAMES

from .conftest import Publish, Run
from .rows import TESTS, jsonl, princeton, prompt_line, swe_gym

CASES = """diff --git a/test-data/unit/check-x.test b/test-data/unit/check-x.test
--- a/test-data/unit/check-x.test
+++ b/test-data/unit/check-x.test
@@ -1,2 +1,3 @@ [case testOld]
 x = 1
+y = 1
"""
PYDANTIC = "pytest -rA --tb=short -vv -o console_output_style=classic --no-header tests/t.py"
DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 t"
SYMPY = "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose tests/t.py"
# instance_id: version of the row, and the line that runs its tests
SWE_GYM: Mapping[str, tuple[str, str]] = {
    "python__mypy-11213": ("0.920", "pytest -n0 -rA -k testOld"),
    "getmoto__moto-5876": ("4.1", "pytest -n0 -rA tests/t.py"),
    "conan-io__conan-11330": ("1.49", "pytest -n0 -rA tests/t.py"),
    "dask__dask-9739": ("2022.12", "pytest -n0 -rA --color=no tests/t.py"),
    "Project-MONAI__MONAI-5686": ("1.0", "pytest -rA tests/t.py"),
    "iterative__dvc-9511": ("2.58", "pytest -rA tests/t.py"),
    "bokeh__bokeh-12841": ("3.1", "pytest -rA -n0 tests/t.py"),
    "modin-project__modin-5940": ("0.18", "pytest -n0 -rA tests/t.py"),
    "pydantic__pydantic-8316": ("2.6", PYDANTIC),
    "pandas-dev__pandas-50232": ("2.0", "pytest -rA --tb=long tests/t.py"),
    "facebookresearch__hydra-1915": ("1.2", "pytest -rA --tb=long tests/t.py"),
}
SWE_BENCH: Mapping[str, tuple[str, str]] = {
    "astropy__astropy-12907": ("4.3", "pytest -rA tests/t.py"),
    "django__django-13820": ("3.2", DJANGO),
    "matplotlib__matplotlib-23299": ("3.5", "pytest -rA tests/t.py"),
    "mwaskom__seaborn-2848": ("0.12", "pytest --no-header -rA tests/t.py"),
    "pallets__flask-4045": ("2.0", "pytest -rA tests/t.py"),
    "psf__requests-2148": ("2.3", "pytest -rA tests/t.py"),
    "pydata__xarray-3364": ("0.12", "pytest -rA tests/t.py"),
    "pylint-dev__pylint-5859": ("2.13", "pytest -rA tests/t.py"),
    "pytest-dev__pytest-5103": ("4.5", "pytest -rA tests/t.py"),
    "scikit-learn__scikit-learn-10297": ("0.20", "pytest -rA tests/t.py"),
    "sphinx-doc__sphinx-8435": ("4.0", "tox --current-env -epy39 -v -- tests/t.py"),
    "sympy__sympy-11400": ("1.0", SYMPY),
}
SWE_BENCH_DEV: Mapping[str, tuple[str, str]] = {
    "sqlfluff__sqlfluff-1625": ("0.6", "pytest -rA tests/t.py"),
    "marshmallow-code__marshmallow-1359": ("3.0", "pytest -rA tests/t.py"),
    "pvlib__pvlib-python-1606": ("0.8", "pytest -rA tests/t.py"),
    "pylint-dev__astroid-1333": ("2.10", "pytest -rA tests/t.py"),
    "pyvista__pyvista-4315": ("0.39", "pytest -rA tests/t.py"),
    "pydicom__pydicom-1139": ("2.0", "pytest -rA tests/t.py"),
}
GENERIC = {"pytest-dev__pytest-5103"}  # instances of SWE-bench whose output the generic parser reads


def gym_rows() -> list[dict[str, Any]]:
    changed = {name: CASES if name.startswith("python__mypy") else TESTS for name in SWE_GYM}
    return [swe_gym(name, version=version, test_patch=changed[name]) for name, (version, _) in SWE_GYM.items()]


def bench_rows(instances: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    return [princeton(name, version=version) for name, (version, _) in instances.items()]


def commands_of(tasks: list[Task]) -> dict[str, str]:
    """The line after the start marker of each task's script."""
    scripts = {task.instance_id: task.ground_truth.eval_script.splitlines() for task in tasks}
    return {name: lines[lines.index(": '>>>>> Start Test Output'") + 1] for name, lines in scripts.items()}


def expected(instances: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {name: command for name, (_, command) in instances.items()}


@pytest.mark.parametrize(
    "name", ["swe-gym", "swe-gym-lite", "swe-gym-subset", "SWE-Gym/SWE-Gym", "SWE-Gym/SWE-Gym-Lite"]
)
def test_swe_gym_is_imported_with_one_command(output_file: Path, run_import: Run, publish: Publish, name: str) -> None:
    publish(NAMES.get(name, name), "train", *gym_rows())
    assert run_import(name) == [], "no fault, no warning"
    tasks = load_tasks(output_file, "jsonl", purpose="train")
    assert commands_of(tasks) == expected(SWE_GYM)
    images = {task.instance_id: task.image for task in tasks}
    monai = "docker.io/xingyaoww/sweb.eval.x86_64.project-monai_s_monai-5686:latest"
    assert images["Project-MONAI__MONAI-5686"] == monai
    assert {task.ground_truth.log_parser for task in tasks} == {"parse_log_pytest"}


def test_default_source_is_swe_gym(output_file: Path, run_import: Run, publish: Publish) -> None:
    publish("SWE-Gym/SWE-Gym", "train", *gym_rows())
    run_import()
    assert len(load_tasks(output_file, "jsonl")) == len(SWE_GYM)


def test_lines_of_swe_gym_as_miles_writes_them(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    lines = [prompt_line(row, "gym", "train") for row in gym_rows()]
    run_import(jsonl(tmp_path / "miles.jsonl", *lines), "--format", "prompt")
    tasks = load_tasks(output_file, "jsonl", purpose="train")
    assert commands_of(tasks) == expected(SWE_GYM)
    assert all(task.image.startswith("docker.io/xingyaoww/") for task in tasks)


def test_one_file_mixes_sets(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    gym = [prompt_line(row, "gym", "train") for row in gym_rows()]
    bench = [prompt_line(row, "verified", "test") for row in bench_rows(SWE_BENCH)]
    run_import(jsonl(tmp_path / "miles.jsonl", *gym, *bench), "--format", "prompt", "--purpose", "evaluation")
    tasks = load_tasks(output_file, "jsonl")
    assert commands_of(tasks) == expected(SWE_GYM) | expected(SWE_BENCH)
    by_set = [task.instance_id for task in tasks if task.image.startswith("docker.io/xingyaoww/")]
    assert sorted(by_set) == sorted(SWE_GYM), "each row has the images of its own set"


@pytest.mark.parametrize(
    "name",
    [
        *("swe-bench", "lite", "verified"),
        *("princeton-nlp/SWE-bench", "princeton-nlp/SWE-bench_Lite", "princeton-nlp/SWE-bench_Verified"),
    ],
)
def test_swe_bench_is_imported_with_one_command(
    output_file: Path, run_import: Run, publish: Publish, name: str
) -> None:
    publish(NAMES.get(name, name), "test", *bench_rows(SWE_BENCH))
    assert run_import(name, "--purpose", "evaluation") == [], "no fault, no warning"
    tasks = load_tasks(output_file, "jsonl")
    assert commands_of(tasks) == expected(SWE_BENCH)
    images = {task.instance_id: task.image for task in tasks}
    assert images["psf__requests-2148"] == "docker.io/swebench/sweb.eval.x86_64.psf_1776_requests-2148:latest"
    generic = {task.instance_id for task in tasks if task.ground_truth.log_parser == "parse_log_pytest"}
    assert generic == GENERIC


def test_training_split_of_swe_bench_is_imported_for_training(
    output_file: Path, run_import: Run, publish: Publish
) -> None:
    publish("princeton-nlp/SWE-bench", "dev", *bench_rows(SWE_BENCH_DEV))
    run_import("princeton-nlp/SWE-bench", "--split", "dev")
    assert commands_of(load_tasks(output_file, "jsonl", purpose="train")) == expected(SWE_BENCH_DEV)


def test_other_commands_take_the_names(publish: Publish, capsys: pytest.CaptureFixture[str]) -> None:
    publish("princeton-nlp/SWE-bench_Lite", "test", *bench_rows(SWE_BENCH))
    assert main(["tasks", "list", "princeton-nlp/SWE-bench_Lite"]) == 0
    assert "sympy__sympy-11400" in capsys.readouterr().out
