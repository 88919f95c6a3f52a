"""What is served for an evaluation, and the message when there is nothing to serve."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from swerl_api import EvaluationFile
from swerl_trainer.joining import ExpectedPods, PodJoining, PodsMissing
from swerl_trainer.process import NO_RETRY
from swerl_trainer.serving import serve
from swerl_trainer.serving.__main__ import main
from swerl_trainer.serving.errors import ServingError
from swerl_trainer.serving.serve import ServingPaths, served_folder


def evaluation(checkpoint: Path | None = None) -> EvaluationFile:
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    spec: dict[str, Any] = {
        "model": {"job": {"name": "demo"}},
        "tasks": {"source": claim},
        "image": "trainer:1",
        "rollout": {"image": "trainer:1"},
        "output": {"volume": claim},
    }
    return EvaluationFile.model_validate(
        {
            "name": "nightly", "namespace": "ns", "uid": "u", "engine": "http://router:30000", "dtype": "float32",
            "tokenizer": "/swerl/model", "checkpoint": str(checkpoint) if checkpoint else None, "spec": spec,
        }
    )  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> ServingPaths:
    return ServingPaths(model=tmp_path / "model", output=tmp_path / "output")


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Checkpoints that were converted; the conversion writes a configuration."""
    folders: list[Path] = []

    async def convert(checkpoint: Path, model: Path, folder: Path, dtype: str) -> None:
        await asyncio.sleep(0)
        folders.append(checkpoint)
        folder.mkdir(parents=True)

    monkeypatch.setattr(serve, "_convert", convert)
    return folders


def complete(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "COMPLETE").write_text("12\n")
    return folder


async def test_folder_is_served_as_it_is(paths: ServingPaths, conversions: list[Path]) -> None:
    assert await served_folder(evaluation(), paths) == paths.model
    assert conversions == []


async def test_converted_checkpoint_is_served_after_its_deletion(
    paths: ServingPaths, conversions: list[Path], tmp_path: Path
) -> None:
    checkpoint = complete(tmp_path / "checkpoints" / "step-0000012")
    folder = await served_folder(evaluation(checkpoint), paths)
    assert folder == paths.output / "nightly" / "model-step-0000012"
    (checkpoint / "COMPLETE").unlink()
    assert await served_folder(evaluation(checkpoint), paths) == folder
    assert conversions == [checkpoint]


async def test_checkpoint_that_is_not_complete_is_named(
    paths: ServingPaths, conversions: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "step-0000003").mkdir()
    with pytest.raises(ServingError, match=r"no complete checkpoint at .*step-0000003"):
        await served_folder(evaluation(tmp_path / "step-0000003"), paths)


def test_broken_file_is_named_and_not_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"name": "x"}))
    assert main(["--config", str(path)]) == NO_RETRY
    assert f"ServingError: {path} describes no evaluation: namespace: Field required; uid:" in capsys.readouterr().out


class WaitingPool:
    """Engines whose Pods never come."""

    async def start(self) -> None:
        await asyncio.Event().wait()


async def test_engines_whose_pods_do_not_join_are_named() -> None:
    joining = PodJoining([ExpectedPods("engine", "engine", 2)], 0.0, list, field="rollout")
    with pytest.raises(PodsMissing, match=r"2 of 2 engine Pods .* \(rollout\.joinTimeoutSeconds\)"):
        await serve._start(WaitingPool(), joining)  # type: ignore[arg-type]
