"""Reading tasks: both formats, image names, selection, and messages for what is malformed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.tasks import Task, TaskError, image_name, load_tasks, select
from swerl_agent.tasks.selection import parse_slice, shard_slice
from swerl_api import RegistryRewrite
from swerl_api.images import rewrite

SECRET = "gold-fix-text"


def row(instance_id: str = "getmoto__moto-5876", **changes: Any) -> dict[str, Any]:
    return {
        "instance_id": instance_id,
        "repo": "getmoto/moto",
        "base_commit": "a" * 40,
        "version": "4.1",
        "problem_statement": "It breaks.",
        "patch": f"diff --git a/x b/x\n{SECRET}\n",
        "test_patch": "diff --git a/tests/t.py b/tests/t.py\n",
        "eval_script": "pytest",
        "FAIL_TO_PASS": ["tests/t.py::test_a"],
        "PASS_TO_PASS": '["tests/t.py::test_b"]',
        **changes,
    }


def text_line(instance: dict[str, Any]) -> str:
    metadata = {"instance": instance, "data_source": "SumanthRH/SWE-Gym-Subset"}
    return json.dumps({"text": instance["problem_statement"], "metadata": metadata})


def prompt_line(instance: dict[str, Any]) -> str:
    columns = {key: value for key, value in instance.items() if key != "problem_statement"}
    metadata = {**columns, "subset": "gym", "split": "train"}
    return json.dumps({"prompt": instance["problem_statement"], "metadata": metadata})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "kit__kit-1"
    folder.mkdir(parents=True)
    (tmp_path / "sweb.yaml").write_text("datasets: [o/kit]\nsplits: [train]\n")
    (folder / "task.yaml").write_text(
        f"instance_id: kit__kit-1\nrepo: kit/kit\nversion: '1.0'\nbase_commit: {'b' * 40}\nsplit: train\n"
        "image: swe-rl/task-kit__kit-1:1\nlog_parser: parse_log_pytest\neval_type: pass_and_fail\n"
    )
    (folder / "tests.json").write_text(json.dumps({"FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": []}))
    (folder / "problem_statement.md").write_text("It breaks.\n")
    (folder / "gold.patch").write_bytes(b"diff --git a/x b/x\r\n")
    (folder / "test.patch").write_text("")
    (folder / "eval.sh").write_text("#!/bin/bash\n")
    return tmp_path


@pytest.mark.parametrize("render", [text_line, prompt_line, json.dumps])
def test_every_jsonl_shape_gives_the_same_task(tmp_path: Path, render: Any) -> None:
    image = "docker.io/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5876:latest"
    instance = row(image_name=image) if render is json.dumps else row()
    path = tmp_path / "train.jsonl"
    path.write_text(render(instance) + "\n\n")
    (task,) = load_tasks(path, "jsonl")
    assert task.image == image
    assert task.problem_statement == "It breaks."
    assert task.ground_truth.fail_to_pass == ("tests/t.py::test_a",)
    assert task.ground_truth.pass_to_pass == ("tests/t.py::test_b",)


@pytest.mark.parametrize(
    ("instance_id", "source", "image"),
    [
        ("getmoto__moto-5876", "SWE-Gym/SWE-Gym", "docker.io/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5876:latest"),
        (
            "django__django-13820",
            "princeton-nlp/SWE-bench_Verified",
            "docker.io/swebench/sweb.eval.x86_64.django_1776_django-13820:latest",
        ),
        (
            "Project-MONAI__MONAI-1010",
            "swe-gym",
            "docker.io/xingyaoww/sweb.eval.x86_64.project-monai_s_monai-1010:latest",
        ),
    ],
)
def test_public_image_names(instance_id: str, source: str, image: str) -> None:
    assert image_name({"instance_id": instance_id}, source) == image


def test_image_of_the_row_takes_precedence() -> None:
    assert (
        image_name({"instance_id": "a__b-1", "docker_image": "Namanjain/X:1.0-RC"}, "swe-gym") == "namanjain/x:1.0-RC"
    )


def test_unknown_data_source_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n" + json.dumps(row()) + "\n")
    with pytest.raises(TaskError, match=r"a\.jsonl:2: no image"):
        load_tasks(path, "jsonl")


@pytest.mark.parametrize(
    ("rules", "before", "after"),
    [
        ([("docker.io/", "mirror:5000/")], "docker.io/swebench/a:1", "mirror:5000/swebench/a:1"),
        ([("docker.io/", "mirror:5000/")], "swe-rl/a:1", "mirror:5000/swe-rl/a:1"),
        ([("docker.io/", "mirror:5000/")], "ghcr.io/o/a:1", "ghcr.io/o/a:1"),
        ([("", "mirror:5000/")], "swe-rl/a:1", "mirror:5000/swe-rl/a:1"),
        ([("docker.io/xingyaoww/", "m/x/"), ("docker.io/", "m/")], "docker.io/xingyaoww/a", "m/x/a"),
    ],
)
def test_registry_rewrite(rules: list[tuple[str, str]], before: str, after: str) -> None:
    assert rewrite(before, [RegistryRewrite(prefix=a, replacement=b) for a, b in rules]) == after


def test_task_repository_is_read_and_rewritten(repository: Path) -> None:
    rule = RegistryRewrite(prefix="", replacement="mirror:5000/")
    (task,) = load_tasks(repository, "swebench-task-repo", registry_rewrite=[rule])
    assert task.image == "mirror:5000/swe-rl/task-kit__kit-1:1"
    assert task.ground_truth.patch == "diff --git a/x b/x\r\n"
    assert task.split == "train"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("task.yaml", "instance_id: other\n", "instance_id is 'other'"),
        ("task.yaml", "a: [", "not valid YAML"),
        ("tests.json", "{", "not valid JSON"),
        ("tests.json", '{"FAIL_TO_PASS": [], "PASS_TO_PASS": []}', "FAIL_TO_PASS is empty"),
        (
            "tests.json",
            '{"FAIL_TO_PASS": "x", "PASS_TO_PASS": []}',
            "FAIL_TO_PASS is text that is neither JSON nor a Python literal",
        ),
        ("problem_statement.md", "", "problem_statement is empty"),
    ],
)
def test_malformed_task_is_named(repository: Path, file: str, content: str, message: str) -> None:
    (repository / "tasks" / "kit__kit-1" / file).write_text(content)
    with pytest.raises(TaskError, match=message):
        load_tasks(repository, "swebench-task-repo")


def test_missing_file_is_named(repository: Path) -> None:
    (repository / "tasks" / "kit__kit-1" / "eval.sh").unlink()
    with pytest.raises(TaskError, match=r"kit__kit-1/eval\.sh: cannot be read"):
        load_tasks(repository, "swebench-task-repo")


def test_repeated_ids_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text((text_line(row()) + "\n") * 2)
    with pytest.raises(TaskError, match="more than once: getmoto__moto-5876"):
        load_tasks(path, "jsonl")


def tasks(tmp_path: Path, count: int) -> list[Task]:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(text_line(row(f"o__r-{number:03}")) + "\n" for number in reversed(range(count))))
    return load_tasks(path, "jsonl")


def test_slice_is_of_sorted_ids(tmp_path: Path) -> None:
    selected = select(tasks(tmp_path, 500), slice="0:5")
    assert [task.instance_id for task in selected] == [f"o__r-00{number}" for number in range(5)]


def test_filter_precedes_slice_and_shuffle_uses_the_seed(tmp_path: Path) -> None:
    everything = tasks(tmp_path, 50)
    assert [task.instance_id for task in select(everything, filter="o__r-04", slice="-2:")] == ["o__r-048", "o__r-049"]
    first, repeated, other_seed = (select(everything, shuffle=True, seed=seed) for seed in (1, 1, 2))
    assert first == repeated
    assert first != other_seed


def test_no_remaining_task_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no task left of 3"):
        select(tasks(tmp_path, 3), filter="nothing")


@pytest.mark.parametrize("text", ["5", "a:b", "1:2:0", "1:2:3:4"])
def test_malformed_slice_is_refused(text: str) -> None:
    with pytest.raises(TaskError, match="slice"):
        parse_slice(text)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_shards_cover_everything_once(count: int) -> None:
    items = list(range(20))
    assert [item for index in range(count) for item in items[shard_slice(index, count, len(items))]] == items


def test_task_view_and_repr_hold_no_ground_truth(repository: Path) -> None:
    (task,) = load_tasks(repository, "swebench-task-repo")
    assert not hasattr(task.visible(), "ground_truth")
    assert "diff --git" not in repr(task) + repr(task.ground_truth) + repr(task.visible())
