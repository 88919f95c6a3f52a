"""Downloads of the models and tasks that a job names by a Hugging Face id.

Guarantees: a model's folder on the output volume is complete when `download` returns. It is downloaded once for all
attempts and jobs, and an interrupted download is resumed. Tasks go to folders of the head Pod only, split into the
parts for agents and for grading. Nothing is downloaded for a job that names no id.

The preflight Pod brings the models (`python -m swerl_trainer.driver.download --job FILE`), before GPUs are taken. Its
termination message has their sizes, with which the operator plans the job. The driver brings the tasks, and models
where no preflight ran.

The downloads run in a process of their own, because trainer images set the Hugging Face libraries to offline mode.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swerl_agent.tasks import Purpose, TaskError
from swerl_agent.tasks.importing import ImportRequest, gather
from swerl_agent.tasks.sources import RowSource
from swerl_agent.tasks.writing import RowLayout, write_entries
from swerl_api import TaskSelection
from swerl_api.names import DOWNLOAD_FAILED_CODE
from swerl_api.source import HuggingFaceSource
from swerl_plan import models_text
from swerl_trainer.checkpoints import MARKER
from swerl_trainer.child_process import run_child
from swerl_trainer.driver.preflight import job_models
from swerl_trainer.job import Job, JobError

MODULE = "swerl_trainer.driver.download"
OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
TASKS_FILE = "tasks.jsonl"
# The top level of a model's repository: configuration, weights, tokenizer. No Python and no pickles: both run code.
MODEL_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken"]
IGNORED_FILES = ["*/*"]


@dataclass(frozen=True)
class Download:
    """One repository and the folder it goes to."""

    field: str  # of the spec
    folder: str
    id: str
    revision: str
    purpose: Purpose | None = None  # of tasks; None: it is a model
    config: str | None = None
    split: str | None = None
    filter: str | None = None


async def download(job: Job) -> None:
    """Download everything. Raises JobError naming the field and what to do."""
    await _download([*downloads(job)])


async def _download(items: list[Download]) -> None:
    if not items:
        return
    environment = {name: value for name, value in os.environ.items() if name not in OFFLINE}
    command = [sys.executable, "-m", MODULE, "--items", json.dumps([asdict(item) for item in items])]
    code, output = await run_child(command, environment | {"HF_HUB_DISABLE_PROGRESS_BARS": "1"})
    if code:
        lines = output.strip().splitlines() or [f"the process exited with code {code}"]
        raise JobError(f"download failed: {lines[-1]}")


def downloads(job: Job) -> Iterator[Download]:
    """The downloads of a job. Pure."""
    yield from _model_downloads(job)
    yield from _task_downloads(job)


def _model_downloads(job: Job) -> Iterator[Download]:
    spec, paths = job.spec, job.paths
    if spec.model.source.hugging_face:
        yield _model("model.source", paths.model, spec.model.source.hugging_face)
    if spec.judge and spec.judge.model.hugging_face:
        yield _model("judge.model", paths.judge, spec.judge.model.hugging_face)


def _task_downloads(job: Job) -> Iterator[Download]:
    spec, paths = job.spec, job.paths
    if spec.tasks.source.hugging_face:
        yield _tasks("tasks.source", paths.tasks, spec.tasks, spec.tasks.source.hugging_face, "train")
    held_out = spec.evaluation
    if held_out and held_out.source.hugging_face:
        yield _tasks("evaluation.source", paths.evaluation, held_out, held_out.source.hugging_face, "evaluation")


def fetch(item: Download) -> None:
    """Do one download; raises what the libraries raise, and TaskError for rows that are not tasks."""
    folder = Path(item.folder)
    if item.purpose is None:
        _fetch_model(item, folder)
    else:
        _fetch_tasks(item, folder, item.purpose)


def _model(field: str, folder: Path, hub: HuggingFaceSource) -> Download:
    return Download(field, str(folder), hub.id, hub.revision)


def _tasks(field: str, folder: Path, selection: TaskSelection, hub: HuggingFaceSource, purpose: Purpose) -> Download:
    return Download(field, str(folder), hub.id, hub.revision, purpose, hub.config, hub.split, selection.filter)


def _fetch_model(item: Download, folder: Path) -> None:
    if (folder / MARKER).is_file():
        return
    import huggingface_hub

    huggingface_hub.snapshot_download(
        item.id, revision=item.revision, local_dir=folder, allow_patterns=MODEL_FILES, ignore_patterns=IGNORED_FILES
    )
    if not (folder / "config.json").is_file():
        raise ValueError("the repository has no config.json: it is not a model in Hugging Face format")
    (folder / MARKER).write_text(f"{item.id}@{item.revision}\n")


def _fetch_tasks(item: Download, folder: Path, purpose: Purpose) -> None:
    malformed: list[TaskError] = []
    source = RowSource(item.id, item.config, item.split, item.revision)
    try:
        entries = gather([source], ImportRequest(purpose=purpose, filter=item.filter), malformed.append)
    except TaskError:
        if malformed:
            raise malformed[0] from None
        raise
    if malformed:
        raise TaskError(f"{len(malformed)} malformed rows ({len(entries)} are valid), the first: {malformed[0]}")
    write_entries(folder / TASKS_FILE, entries, RowLayout())


def main(arguments: list[str] | None = None) -> int:
    """The command line of the preflight, and of the process that uses the network."""
    parser = argparse.ArgumentParser(prog="swerl_trainer.driver.download", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--job", type=Path, help="description of an attempt, whose models are downloaded")
    what.add_argument("--items", type=json.loads, help="downloads as JSON")
    parser.add_argument(
        "--message", type=Path, default=Path("/dev/termination-log"), help="file for the result of --job"
    )
    options = parser.parse_args(arguments)
    return _preflight(options.job, options.message) if options.job else _fetch_all(options.items)


def _preflight(path: Path, message: Path) -> int:
    """Download the models of the job at `path`; their sizes, or why that failed, are in the file `message`."""
    try:
        job = Job.read(path)
        asyncio.run(_download([*_model_downloads(job)]))
    except JobError as error:
        print(error, file=sys.stderr, flush=True)
        message.write_text(str(error))
        return DOWNLOAD_FAILED_CODE
    message.write_text(models_text(job_models(job)))
    return 0


def _fetch_all(items: list[dict[str, Any]]) -> int:
    """Do the downloads; the reason of a failure is the last line of standard output."""
    for fields in items:
        item = Download(**fields)
        try:
            fetch(item)
        except Exception as error:  # a library may raise anything
            print(f"{item.field}: {_reason(item, error)}", flush=True)
            return 1
    return 0


def _reason(item: Download, error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if isinstance(error, TaskError):
        return first
    return (
        f"{item.id}@{item.revision} cannot be downloaded from Hugging Face: {type(error).__name__}: {first}; check"
        " id, revision, the egress of the job's Pods, and HF_TOKEN (trainer.envFromSecrets)"
    )


if __name__ == "__main__":
    sys.exit(main())
