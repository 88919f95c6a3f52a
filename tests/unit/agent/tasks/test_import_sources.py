"""`swerl tasks import` from the Hub, from folders, and with eval scripts that lie elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from swerl_agent.cli import main
from swerl_agent.tasks import load_tasks

from tests.unit.docs.pages import command_of

from .conftest import Publish, Run
from .rows import SCRIPT, jsonl, parquet, sumanth, swe_gym, swebench

OTHER = "python__mypy-11213"


def test_hugging_face_id_is_loaded_by_datasets(output_file: Path, run_import: Run, publish: Publish) -> None:
    publish("SWE-Gym/SWE-Gym-Lite", "train", sumanth(), sumanth(OTHER))
    run_import("swe-gym-lite", "--limit", 1)
    (task,) = load_tasks(output_file, "jsonl", purpose="train")
    assert (task.instance_id, task.data_source, task.split) == ("getmoto__moto-5876", "SWE-Gym/SWE-Gym-Lite", "train")


def test_published_split_is_the_default(output_file: Path, run_import: Run, publish: Publish) -> None:
    publish("SWE-bench/SWE-bench_Verified", "test", swebench())
    run_import("verified", "--purpose", "evaluation")
    assert load_tasks(output_file, "jsonl")[0].split == "test"


VERIFIED = "docs/swe-bench-verified.md"


@pytest.mark.parametrize(
    ("command", "written"),
    [
        (
            (VERIFIED, "swerl", "tasks", "import", "verified"),
            ["verified/verified.grading.jsonl", "verified/verified.jsonl"],
        ),
        ((VERIFIED, "swerl", "tasks", "images", "verified"), []),
        (
            ("docs/tasks.md", "swerl", "tasks", "export", "verified"),
            [f"assets/{name}" for name in ("docker_images.txt", "instance_ids.txt")]
            + ["assets/verified_eval.grading.jsonl", "assets/verified_eval.jsonl"],
        ),
        (("docs/tasks.md", "swerl", "tasks", "import", "swe-gym", "--output"), ["train.grading.jsonl", "train.jsonl"]),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else "",
)
def test_documented_command_reads_a_published_set(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    publish: Publish,
    command: tuple[str, ...],
    written: list[str],
) -> None:
    publish("SWE-bench/SWE-bench_Verified", "test", swebench())
    publish("SWE-Gym/SWE-Gym", "train", swe_gym())
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(command_of(*command)[1:]) == 0
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()) == written
    assert written or "django_1776_django-13820" in capsys.readouterr().out


def test_documented_commands_import_add_scripts_and_drop_the_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: Publish
) -> None:
    publish("SWE-Gym/SWE-Gym-Lite", "train", swe_gym(), swe_gym(OTHER))
    monkeypatch.chdir(tmp_path)
    jsonl(Path("scripts.jsonl"), sumanth(), sumanth(OTHER))
    assert main(command_of("docs/tasks.md", "swerl", "tasks", "import", "swe-gym-lite")[1:]) == 0
    assert [task.ground_truth.eval_script for task in load_tasks(Path("train.jsonl"), "jsonl")] == [SCRIPT, SCRIPT]
    Path("tasks-check").mkdir()  # of the command between the two, which needs a cluster
    jsonl(Path("tasks-check/quarantine.jsonl"), {"instance_id": OTHER, "reason": "flaky"})
    assert main(command_of("docs/tasks.md", "swerl", "tasks", "import", "train.jsonl")[1:]) == 0
    assert [task.instance_id for task in load_tasks(Path("clean.jsonl"), "jsonl")] == ["getmoto__moto-5876"]


def test_folder_saved_by_datasets_is_read(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    import datasets

    saved = datasets.DatasetDict({"train": datasets.Dataset.from_list([sumanth()])})
    saved.save_to_disk(str(tmp_path / "saved"))
    run_import(tmp_path / "saved", "--data-source", "swe-gym")
    assert load_tasks(output_file, "jsonl")[0].image.startswith("docker.io/xingyaoww/")
    (error,) = run_import(tmp_path / "saved", "--data-source", "swe-gym", "--split", "dev", code=2)
    assert "no split 'dev'; it has train" in error


def test_task_repository_is_imported(output_file: Path, run_import: Run) -> None:
    folder = Path(__file__).parents[4] / "tasks" / "train"
    run_import(folder, "--filter", "swe-rl__store")
    assert load_tasks(output_file, "jsonl") == load_tasks(folder, "swebench-task-repo", filter="swe-rl__store")


def test_mounted_config_map_is_read_once(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", sumanth()), "--data-source", "swe-gym")
    volume = tmp_path / "volume"
    (volume / "..2025_11_21").mkdir(parents=True)
    (volume / "..data").symlink_to("..2025_11_21")
    for file in output_file.parent.iterdir():
        (volume / "..2025_11_21" / file.name).write_bytes(file.read_bytes())
        (volume / file.name).symlink_to(Path("..data") / file.name)
    assert load_tasks(volume, "jsonl") == load_tasks(output_file, "jsonl")


def test_eval_scripts_are_read_from_another_source(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    without_scripts, with_scripts = jsonl(tmp_path / "a.jsonl", swe_gym()), parquet(tmp_path / "b.parquet", sumanth())
    run_import(without_scripts, "--data-source", "SWE-Gym/SWE-Gym", "--eval-scripts", with_scripts)
    assert load_tasks(output_file, "jsonl")[0].ground_truth.eval_script == SCRIPT


def test_eval_scripts_are_rendered_from_the_table(tmp_path: Path, output_file: Path, run_import: Run) -> None:
    run_import(jsonl(tmp_path / "a.jsonl", swe_gym()), "--data-source", "SWE-Gym/SWE-Gym")
    assert "pytest -n0 -rA tests/t.py" in load_tasks(output_file, "jsonl")[0].ground_truth.eval_script.splitlines()
