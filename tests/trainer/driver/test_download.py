"""What jobs name by Hugging Face ids: the real libraries, with a folder in the Hub's place."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from swerl_agent.tasks import load_tasks
from swerl_api.names import DOWNLOAD_FAILED_CODE
from swerl_plan import Models, read_models_text, shape_of
from swerl_trainer.driver.download import Download, download, downloads, fetch, main
from swerl_trainer.job import Job, JobError
from swerl_trainer.rollout.actor import _tasks

from tests.hub_server import hub_server
from tests.trainer.conftest import job_document
from tests.unit.agent.tasks.rows import jsonl, parquet, sumanth, swe_gym, swebench
from tests.unit.trainer.driver.test_preflight import CONFIG

MakeJob = Callable[..., Job]
MODEL = {"id": "Qwen/Qwen3-4B", "revision": "refs/pr/1"}
TAKEN = ("config.json", "model.safetensors", "tokenizer.json", "merges.txt", "tokenizer.model", "chat_template.jinja")
CODE = ("modeling_own.py", "tokenization_own.py", "pytorch_model.bin", "training_args.pt", "vocabulary.pkl")
FILES = (*TAKEN, *CODE, "README.md", "original/model.safetensors")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a folder for each id: what `datasets` finds."""
    import datasets

    folder = tmp_path / "hub"
    load = datasets.load_dataset

    def load_dataset(name: str, *arguments: Any, **options: Any) -> Any:
        return load(str(folder / name), *arguments, **options)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return folder


@pytest.fixture
def model_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a folder for each id: what child processes download from."""
    (tmp_path / "hub").mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    with hub_server(tmp_path / "hub") as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield tmp_path / "hub"


def data_set(hub: Path, name: str, split: str, *rows: dict[str, Any]) -> None:
    (hub / name / "data").mkdir(parents=True, exist_ok=True)
    parquet(hub / name / "data" / f"{split}-00000-of-00001.parquet", *rows)


def model(hub: Path, *files: str) -> None:
    for name in files:
        path = hub / MODEL["id"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_models_are_on_the_output_volume_and_tasks_in_the_head(make_job: MakeJob) -> None:
    judge = {"model": {"huggingFace": {"id": "Qwen/Qwen3-8B"}}}
    tasks = {"source": {"huggingFace": {"id": "SumanthRH/SWE-Gym-Subset", "split": "train"}}, "filter": "getmoto"}
    job = make_job(model={"source": {"huggingFace": MODEL}}, judge=judge, tasks=tasks)
    assert job.paths.model == job.paths.output / "models" / "Qwen--Qwen3-4B@refs--pr--1"
    assert job.paths.judge == job.paths.output / "models" / "Qwen--Qwen3-8B@main"
    assert [(download.field, download.folder, download.purpose) for download in downloads(job)] == [
        ("model.source", str(job.paths.model), None),
        ("judge.model", str(job.paths.judge), None),
        ("tasks.source", str(job.paths.tasks), "train"),
    ]
    assert [(download.split, download.filter) for download in downloads(job)][-1] == ("train", "getmoto")


def test_imported_tasks_are_split_and_readable_by_the_job(hub: Path, make_job: MakeJob) -> None:
    data_set(hub, "SumanthRH/SWE-Gym-Subset", "train", sumanth(), sumanth("python__mypy-11213"))
    data_set(hub, "SWE-bench/SWE-bench_Verified", "test", swebench())
    job = make_job(
        tasks={"source": {"huggingFace": {"id": "SumanthRH/SWE-Gym-Subset"}}, "filter": "getmoto"},
        evaluation={"source": {"huggingFace": {"id": "SWE-bench/SWE-bench_Verified"}}},
    )
    for found_download in downloads(job):
        fetch(found_download)
    (task,) = _tasks(job, job.spec.tasks, job.paths.tasks, "train")
    assert (task.instance_id, task.image) == (
        "getmoto__moto-5876",
        "docker.io/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5876:latest",
    )
    visible = (job.paths.tasks / "tasks.jsonl").read_text()
    assert task.ground_truth.patch and task.ground_truth.patch not in visible
    assert job.spec.evaluation is not None
    (held_out,) = _tasks(job, job.spec.evaluation, job.paths.evaluation, "evaluation")
    assert (held_out.split, held_out.benchmark) == ("test", True)
    assert load_tasks(job.paths.evaluation, "jsonl") == [held_out]


@pytest.mark.parametrize("section", ["tasks", "evaluation"])
def test_job_leaves_out_what_is_in_quarantine_beside_its_tasks(
    make_job: MakeJob, tmp_path: Path, caplog: pytest.LogCaptureFixture, section: str
) -> None:
    jsonl(tmp_path / "rows.jsonl", sumanth(image="calc:1"), sumanth("python__mypy-11213", image="calc:1"))
    jsonl(tmp_path / "quarantine.jsonl", {"instance_id": "python__mypy-11213", "reason": "flaky"})
    source = {"source": {"persistentVolumeClaim": {"claimName": "tasks"}}, "format": "jsonl"}
    job = make_job(**{section: source})
    (task,) = _tasks(job, getattr(job.spec, section), tmp_path, "train")
    assert task.instance_id == "getmoto__moto-5876"
    assert caplog.messages == [f"1 of 2 tasks at {tmp_path} are in quarantine: python__mypy-11213"]


def fetched(hub_id: str, folder: Path, **how: Any) -> Download:
    return Download("tasks.source", str(folder), hub_id, "main", "train", **how)


@pytest.mark.parametrize(
    ("name", "split", "row", "message"),
    [
        ("SWE-bench/SWE-bench_Verified", "test", swebench(), "benchmark"),
        ("SWE-Gym/SWE-Gym", "train", swe_gym(repo="a/b"), "no eval script"),
        ("SumanthRH/SWE-Gym-Subset", "train", sumanth(base_commit=""), "base_commit is empty"),
        ("someone/else", "train", sumanth(), "data source 'someone/else'"),
    ],
)
def test_data_set_that_cannot_be_trained_on_is_named(
    hub: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, split: str, row: Any, message: str
) -> None:
    data_set(hub, name, split, row)
    assert main(["--items", json.dumps([vars(fetched(name, tmp_path / "tasks"))])]) == 1
    last_line = capsys.readouterr().out.strip().splitlines()[-1]
    assert last_line.startswith("tasks.source: ") and message in last_line
    assert not (tmp_path / "tasks").exists()


async def test_model_is_the_top_level_safetensors_downloaded_once(model_hub: Path, make_job: MakeJob) -> None:
    model(model_hub, *FILES)
    job = make_job(model={"source": {"huggingFace": MODEL}})
    await download(job)
    folder = job.paths.model
    assert {path.name for path in folder.iterdir()} == {*TAKEN, "COMPLETE", ".cache"}
    shutil.rmtree(model_hub)
    await download(job)


async def test_download_without_a_model_is_not_complete(model_hub: Path, make_job: MakeJob) -> None:
    model(model_hub, "README.txt")
    job = make_job(model={"source": {"huggingFace": MODEL}})
    with pytest.raises(JobError, match=r"model\.source: .*no config\.json"):
        await download(job)
    assert not (job.paths.model / "COMPLETE").exists()


def job_file(folder: Path) -> Path:
    """The description of a job whose tasks are on the Hub too; its model goes to the Pod's own output."""
    tasks = {"source": {"huggingFace": {"id": "SumanthRH/SWE-Gym-Subset"}}}
    file = folder / "job.json"
    file.write_text(json.dumps(job_document(model={"source": {"huggingFace": MODEL}}, tasks=tasks)))
    return file


def test_preflight_says_why_the_model_is_not_there_and_leaves_tasks_to_the_driver(
    model_hub: Path, tmp_path: Path
) -> None:
    message = tmp_path / "termination-log"
    assert main(["--job", str(job_file(tmp_path)), "--message", str(message)]) == DOWNLOAD_FAILED_CODE
    text = message.read_text()
    assert text.startswith("download failed: model.source: Qwen/Qwen3-4B@refs/pr/1 cannot be downloaded")
    assert "RepositoryNotFoundError" in text and "HF_TOKEN" in text


def test_preflight_reports_the_sizes_of_the_model(model_hub: Path, tmp_path: Path) -> None:
    model(model_hub, *FILES)
    config = model_hub / MODEL["id"] / "config.json"
    config.write_text(json.dumps(CONFIG))
    message = tmp_path / "termination-log"
    assert main(["--job", str(job_file(tmp_path)), "--message", str(message)]) == 0
    assert read_models_text(message.read_text()) == Models(shape_of(CONFIG))


async def test_job_without_ids_downloads_nothing(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    started = AsyncMock()
    monkeypatch.setattr("asyncio.create_subprocess_exec", started)
    await download(make_job())
    assert not started.called


async def test_without_network_the_field_and_what_to_check_are_named(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    job = make_job(model={"source": {"huggingFace": MODEL}})
    expected = r"model\.source: Qwen/Qwen3-4B@refs/pr/1 cannot be downloaded .* HF_TOKEN"
    with pytest.raises(JobError, match=expected) as error:
        await download(job)
    assert "offline" not in str(error.value).lower(), "the child process may use the network"
