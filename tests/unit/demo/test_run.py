"""How the demo ends when its job does not: exit status, messages, and what is removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import demo.__main__
from demo import run
from demo.cluster import DemoCluster
from demo.job import VOLUME_CLAIM, Images, volume_folder
from demo.steps import StepFailed


class RecordingCluster(DemoCluster):
    """A cluster that answers every read with the same job and records its commands."""

    commands: list[tuple[str, ...]]
    status: dict[str, Any] | StepFailed

    @classmethod
    def with_job(cls, status: dict[str, Any] | StepFailed) -> RecordingCluster:
        cluster = cls(Path("/nonexistent"), local=True)
        object.__setattr__(cluster, "commands", [])
        object.__setattr__(cluster, "status", status)
        return cluster

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.commands.append(("apply", *(manifest["metadata"]["name"] for manifest in manifests)))

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 300) -> str:
        self.commands.append(arguments)
        return ""

    def get(self, *args: str) -> dict[str, Any]:
        if isinstance(self.status, StepFailed):
            raise self.status
        return {"status": self.status}

    def wait_gone(self, timeout: float, *args: str) -> None:
        self.commands.append(("gone", *args))


JOB = {"metadata": {"name": "demo"}}


def test_job_that_cannot_be_followed_is_deleted() -> None:
    cluster = RecordingCluster.with_job(StepFailed("connection refused"))
    with pytest.raises(StepFailed, match="connection refused"):
        run.train(cluster, JOB, response_timeout=-1.0)
    assert [command[0] for command in cluster.commands] == ["apply", "delete", "gone"]


@pytest.mark.parametrize("local", [True, False])
def test_console_of_a_training_job_is_named_where_its_volume_is_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], local: bool
) -> None:
    monkeypatch.delenv("SWERL_CLUSTER_NAME", raising=False)
    cluster = RecordingCluster.with_job({"phase": "Complete"})
    object.__setattr__(cluster, "local", local)
    run.train(cluster, JOB)
    assert ("  make demo-console   (in another terminal" in capsys.readouterr().out) is local


def test_result_names_the_console(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "second")
    summary = {"held_out_before": None, "held_out_after": None, "rewards": [0.5], "resolved_rates": [0.5]}
    run.print_result(summary, tmp_path, tmp_path / "output")
    assert "SWERL_CLUSTER_NAME=second make demo-console   " in capsys.readouterr().out


def test_failed_job_gives_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"type": "Failed", "status": "True", "message": "no tasks in /data"}
    status, _ = run.train(RecordingCluster.with_job({"phase": "Failed", "conditions": [failed]}), JOB)
    assert status["phase"] == "Failed"
    assert "no tasks in /data" in capsys.readouterr().out


def test_job_without_output_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWERL_HOME", str(tmp_path))
    with pytest.raises(StepFailed, match="wrote nothing"):
        run.fetch_output(RecordingCluster.with_job({}), Images({}), tmp_path)


def test_fetched_output_is_the_jobs_folder_without_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWERL_HOME", str(tmp_path))
    volume = volume_folder()
    for file in ("demo/metrics.jsonl", "demo/checkpoints/step-0000001/COMPLETE", "demo.0a1b2c3d/metrics.jsonl"):
        (volume / file).parent.mkdir(parents=True, exist_ok=True)
        (volume / file).touch()
    output = run.fetch_output(RecordingCluster.with_job({}), Images({}), tmp_path)
    assert output == tmp_path / "output"
    assert [path.name for path in output.rglob("*")] == ["metrics.jsonl"]


@pytest.mark.parametrize(("phase", "code"), [("Complete", 0), ("Failed", 1)])
def test_only_a_complete_job_is_a_success(monkeypatch: pytest.MonkeyPatch, phase: str, code: int) -> None:
    monkeypatch.setattr(demo.__main__, "enter_environment", lambda *_: None)
    monkeypatch.setattr(run, "demo", lambda: {"phase": phase})
    assert demo.__main__.main([]) == code


@pytest.mark.parametrize(
    ("error", "code"), [(StepFailed("no"), 1), (TimeoutError("late"), 1), (KeyboardInterrupt(), 130)]
)
def test_error_of_the_demo_decides_its_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def fail() -> dict[str, Any]:
        raise error

    monkeypatch.setattr(demo.__main__, "enter_environment", lambda *_: None)
    monkeypatch.setattr(run, "demo", fail)
    assert demo.__main__.main([]) == code
    assert capsys.readouterr().err.startswith("demo: ")


def test_named_cluster_is_used_instead_of_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SWERL_CLUSTER", raising=False)
    monkeypatch.setenv("SWERL_HOME", str(tmp_path))
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "second")
    assert DemoCluster.from_environment() == DemoCluster(tmp_path / "clusters" / "second" / "kubeconfig", local=True)
    assert volume_folder("ns") == tmp_path / "clusters" / "second" / "volumes" / "ns" / VOLUME_CLAIM


def test_name_that_no_cluster_can_have_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "../second")
    monkeypatch.setattr(demo.__main__, "enter_environment", lambda *_: pytest.fail("went on"))
    assert demo.__main__.main([]) == 1
    assert capsys.readouterr().err.startswith("demo: cluster name '../second'")
