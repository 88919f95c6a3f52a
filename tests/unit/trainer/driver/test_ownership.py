"""A job's folder is that of one SweRLJob object, whatever else lies on the volume and whenever its driver is killed."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from swerl_agent.storage import WriteFailed
from swerl_api import SweRLJobSpec
from swerl_trainer.driver import ownership
from swerl_trainer.driver.ownership import OWNER_FILE, take_ownership
from swerl_trainer.job import Job, JobError, Paths
from swerl_trainer.metrics.sinks import JsonlSink, rows

OLD, NEW = "0a1b2c3d-4e5f-0000-0000-000000000000", "ffffffff-4e5f-0000-0000-000000000000"
MOVED_FOLDER = "demo.0a1b2c3d"
SPEC = SweRLJobSpec.model_validate(
    {
        "model": {"source": {"configMap": {"name": "m"}}},
        "tasks": {"source": {"configMap": {"name": "t"}}},
        "trainer": {"image": "trainer"},
        "checkpoint": {"volume": {"hostPath": {"path": "/runs"}}},
    }
)
MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """An attempt of a job on the same volume."""

    def make(uid: str = OLD, *, name: str = "demo", namespace: str = "n", attempt: int = 1) -> Job:
        return Job(name, namespace, uid, attempt, f"{name}-{attempt}", SPEC, Paths(output=tmp_path))

    return make


def train(job: Job) -> Path:
    """What a driver does with the folder of its job; returns the checkpoint."""
    take_ownership(job)
    checkpoint = job.checkpoints / "step-0000001"
    checkpoint.mkdir(parents=True, exist_ok=True)
    JsonlSink(job.folder / "metrics.jsonl", attempt=job.attempt, keep={}).write("step", 1, {"x": 1.0})
    return checkpoint


def folder_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def refusal_as_user(user: int, job: Job) -> str:
    """What `take_ownership` answers a process of `user`."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            take_ownership(job)
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        return answer.read()


def test_folder_of_another_user_is_named_with_what_to_do(open_folder: Path) -> None:
    job = Job("demo", "n", OLD, 1, "demo-1", SPEC, Paths(output=open_folder))
    text = (
        "JobError: user 1000 cannot write to {} of checkpoint.volume, which belongs to user 0: set trainer.runAsUser: 0"
    )
    assert refusal_as_user(1000, job).startswith(text.format(open_folder))
    train(job)
    assert refusal_as_user(1000, job).startswith(text.format(job.folder))
    os.chown(job.folder, 1000, 1000)
    assert refusal_as_user(1000, job) == ""


def test_later_attempt_finds_the_folder_as_it_was(make_job: MakeJob, tmp_path: Path) -> None:
    checkpoint = train(make_job())
    names_before = folder_names(checkpoint.parents[1])
    take_ownership(make_job(attempt=2))
    assert folder_names(checkpoint.parents[1]) == names_before == ["checkpoints", OWNER_FILE, "metrics.jsonl"]
    assert folder_names(tmp_path) == ["demo"]


def test_recreated_job_starts_an_empty_folder_and_keeps_the_old(
    make_job: MakeJob, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(make_job(OLD))
    job = make_job(NEW)
    with caplog.at_level(logging.WARNING):
        take_ownership(job)
    assert folder_names(job.folder) == [OWNER_FILE]
    assert json.loads((job.folder / OWNER_FILE).read_text()) == {"namespace": "n", "uid": NEW}
    assert folder_names(tmp_path / MOVED_FOLDER) == ["checkpoints", OWNER_FILE, "metrics.jsonl"]
    assert len(list(rows(tmp_path / MOVED_FOLDER / "metrics.jsonl"))) == 1
    (message,) = caplog.messages
    assert OLD in message and str(tmp_path / MOVED_FOLDER) in message and "starts from its model" in message


def test_folders_set_aside_earlier_are_kept(make_job: MakeJob, tmp_path: Path) -> None:
    for _ in range(3):
        train(make_job(OLD))
        train(make_job(NEW))
    assert folder_names(tmp_path) == [
        "demo",
        MOVED_FOLDER,
        f"{MOVED_FOLDER}-2",
        f"{MOVED_FOLDER}-3",
        "demo.ffffffff",
        "demo.ffffffff-2",
    ]


def test_two_jobs_on_one_volume_keep_their_figures(make_job: MakeJob, tmp_path: Path) -> None:
    jobs = make_job(OLD), make_job(NEW, name="other")
    for job in jobs:
        train(job)
    assert [len(list(rows(job.folder / "metrics.jsonl"))) for job in jobs] == [1, 1]
    assert folder_names(tmp_path) == ["demo", "other"]


@pytest.mark.parametrize("kept", ["checkpoints", "metrics.jsonl"])
def test_folder_without_an_owner_is_set_aside(make_job: MakeJob, tmp_path: Path, kept: str) -> None:
    (tmp_path / "demo" / kept).mkdir(parents=True)
    take_ownership(make_job())
    assert folder_names(tmp_path / "demo") == [OWNER_FILE]
    assert folder_names(tmp_path / "demo.unknown") == [kept]


@pytest.mark.parametrize("text", [b"", b'{"uid": ', b"[]", b"\xff"])
def test_folder_with_a_damaged_owner_file_is_set_aside(make_job: MakeJob, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / OWNER_FILE).write_bytes(text)
    take_ownership(make_job())
    assert (tmp_path / "demo.unknown" / OWNER_FILE).read_bytes() == text


@pytest.mark.parametrize("steps_started", [[], [f"{OWNER_FILE}.part"], ["results.jsonl", "logs"]])
def test_folder_without_data_of_a_job_is_used_unchanged(
    make_job: MakeJob, tmp_path: Path, steps_started: list[str]
) -> None:
    (tmp_path / "demo").mkdir()
    for name in steps_started:
        (tmp_path / "demo" / name).touch()
    take_ownership(make_job())
    assert (tmp_path / "demo" / OWNER_FILE).is_file()
    assert folder_names(tmp_path) == ["demo"]


def test_crash_after_the_old_folder_was_set_aside_is_repaired(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(make_job(OLD))

    def fail(files: object) -> None:
        raise WriteFailed("killed")

    with monkeypatch.context() as patched, pytest.raises(WriteFailed):
        patched.setattr(ownership, "write_atomic", fail)
        take_ownership(make_job(NEW))
    assert folder_names(tmp_path) == [MOVED_FOLDER]
    take_ownership(make_job(NEW, attempt=2))
    assert folder_names(tmp_path) == ["demo", MOVED_FOLDER]
    assert folder_names(tmp_path / "demo") == [OWNER_FILE]


def test_folder_of_another_namespace_is_unchanged(make_job: MakeJob, tmp_path: Path) -> None:
    train(make_job(OLD))
    with pytest.raises(JobError, match=r"demo belongs to the SweRLJob demo of namespace n.*another name"):
        take_ownership(make_job(NEW, namespace="m"))
    assert folder_names(tmp_path) == ["demo"]
    take_ownership(make_job(OLD, attempt=2))


def test_no_job_takes_the_folder_of_downloads(make_job: MakeJob, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="cannot be named models"):
        take_ownership(make_job(name="models"))
    assert folder_names(tmp_path) == []
