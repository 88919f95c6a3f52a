"""What an episode did is on disk, whatever ended its attempt, and makes room for the try that has a result."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from swerl_agent.episode import Episode, EpisodeRequest
from swerl_agent.evaluation import Evaluation, SampleRecords, SampleRunner
from swerl_agent.grading import GradingError, Verdict
from swerl_agent.tasks import Task
from swerl_api import SampleSpec, SandboxSpec
from swerl_kube import Unreachable

from tests.full_disk import files_end_at
from tests.unit.agent.episode.test_abort import NEVER_REACHED, CancelledAt

from .test_evaluation import PATCH, TASK

SAMPLE_ID = (TASK.instance_id, 0)
METADATA = {"model": "m", "api_base": "http://e", "step_limit": 20, "max_tokens": 4096}


class ThreeTurnAgent:
    """An agent of three turns."""

    error: Exception | None = None

    async def run_episode(self, request: EpisodeRequest, session: object) -> Episode:
        episode = Episode(request.task.instance_id, request.group, request.index, exit_status="cancelled")
        try:
            for _ in range(3):
                await asyncio.sleep(0)
                episode.turns += 1
            if self.error:
                raise self.error
            episode.exit_status, episode.patch = "submitted", PATCH
            return episode
        finally:
            assert request.on_end
            request.on_end(episode)


class FakeSampleRunner(SampleRunner):
    """Samples with a fake sandbox and grader; each waits where a real one does."""

    def __init__(self) -> None:
        self.grader = cast(Any, self)
        self.sandbox = SandboxSpec()
        self.error: Exception | None = None  # of grading
        self.delete_error: Exception | None = None  # of the sandbox's removal

    async def _declare(self, task: Task) -> Any:
        await asyncio.sleep(0)
        return self

    async def claim(self, ordinal: int) -> object:
        await asyncio.sleep(0)
        return object()

    async def delete(self) -> None:
        await asyncio.sleep(0)
        if self.delete_error:
            raise self.delete_error

    async def grade(self, task: Task, patch: str, *, image: str) -> Verdict:
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return Verdict("resolved")


def evaluation(folder: Path, agent: ThreeTurnAgent | None = None) -> Evaluation:
    spec, scripted = SampleSpec(workers=1, temperature=0.5), cast(Any, agent or ThreeTurnAgent())
    return Evaluation([TASK], scripted, spec, SampleRecords(folder), folder, metadata=METADATA)


def written_metadata(folder: Path) -> list[dict[str, Any]]:
    """The meta.json of each run folder, oldest first."""
    metadata = [json.loads(path.read_text()) for path in sorted(folder.glob("*/meta.json"))]
    assert all((path.parent / "traj.json").exists() for path in folder.glob("*/meta.json"))
    return metadata


async def cancelled_at(folder: Path, wait_number: int) -> int:
    """Cancel a sample at its `wait_number`-th wait; return the number of waits."""
    waiting = CancelledAt(evaluation(folder)._run_sample(SAMPLE_ID, FakeSampleRunner()), wait_number)

    async def run_to_end() -> None:
        await waiting

    (result,) = await asyncio.gather(asyncio.create_task(run_to_end()), return_exceptions=True)
    assert result is None or isinstance(result, asyncio.CancelledError), result
    return waiting.waits


async def test_cancelled_sample_writes_its_episode_once_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    waits = await cancelled_at(tmp_path / "undisturbed", NEVER_REACHED)
    assert waits >= 7  # declaration, claim, three turns, removal, verdict; then the disk
    endings = []
    for wait_number in range(waits):
        folder = tmp_path / str(wait_number)
        await cancelled_at(folder, wait_number)
        metadata, settled = written_metadata(folder), SampleRecords(folder).has_valid_record(SAMPLE_ID)
        started = wait_number >= 2
        assert len(metadata) == started, f"cancelled at wait {wait_number}"
        assert [meta["interrupted"] for meta in metadata] == [not settled] * started
        endings += [(meta["exit_status"], meta["interrupted"], meta["reward"]) for meta in metadata]
        if not settled:
            await evaluation(folder)._run_sample(SAMPLE_ID, FakeSampleRunner())
        (meta,) = written_metadata(folder)
        (record,) = SampleRecords(folder).all
        assert (meta["interrupted"], meta["reward"], record.resolved) == (False, 1, True)
        assert (folder / record.run_dir / "patch.diff").exists()
    assert {("cancelled", True, None), ("submitted", True, None), ("submitted", False, 1)} == set(endings)


async def test_raised_error_ends_the_sample_and_leaves_artifacts(tmp_path: Path) -> None:
    agent = ThreeTurnAgent()
    agent.error = ZeroDivisionError("oh")
    with pytest.raises(ZeroDivisionError):
        await evaluation(tmp_path, agent)._run_sample(SAMPLE_ID, FakeSampleRunner())
    (meta,) = written_metadata(tmp_path)
    assert (meta["turns"], meta["interrupted"], SampleRecords(tmp_path).all) == (3, True, [])


async def test_episode_whose_patch_cannot_be_graded_here_leaves_its_artifacts(tmp_path: Path) -> None:
    runner = FakeSampleRunner()
    runner.error = GradingError("no permission")
    with pytest.raises(GradingError):
        await evaluation(tmp_path)._run_sample(SAMPLE_ID, runner)
    (meta,) = written_metadata(tmp_path)
    assert (meta["exit_status"], meta["verdict"], meta["interrupted"]) == ("submitted", None, True)
    assert len(list(tmp_path.glob("*/patch.diff"))) == 1
    assert evaluation(tmp_path).left == [SAMPLE_ID]


async def test_verdict_lost_to_the_api_server_loses_the_sample_but_not_its_artifacts(tmp_path: Path) -> None:
    runner = FakeSampleRunner()
    runner.error = Unreachable("connection refused")
    record = await evaluation(tmp_path)._run_sample(SAMPLE_ID, runner)
    assert (record.valid, record.error) == (False, "Unreachable: connection refused")
    assert [meta["interrupted"] for meta in written_metadata(tmp_path)] == [True]


async def test_sandbox_that_cannot_be_removed_fails_no_episode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = FakeSampleRunner()
    runner.delete_error = Unreachable("connection refused")
    record = await evaluation(tmp_path)._run_sample(SAMPLE_ID, runner)
    assert record.resolved and written_metadata(tmp_path)[0]["interrupted"] is False
    assert "could not be deleted; it ends when its Lease expires: connection refused" in caplog.text


async def test_retries_without_result_share_one_folder(tmp_path: Path) -> None:
    other_folder = tmp_path / f"{TASK.instance_id}__g{TASK.instance_id}-0__i1__5"
    other_folder.mkdir(parents=True)
    (other_folder / "meta.json").write_text('{"interrupted": true}')
    (other_folder / "traj.json").write_text("{}")
    for _ in range(2):
        await cancelled_at(tmp_path, 3)
    assert len(written_metadata(tmp_path)) == 2
    await evaluation(tmp_path)._run_sample(SAMPLE_ID, FakeSampleRunner())
    assert sorted(meta["interrupted"] for meta in written_metadata(tmp_path)) == [False, True]
    assert other_folder.exists()


async def test_failed_write_of_an_interrupted_sample_keeps_the_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = FakeSampleRunner()
    runner.error = GradingError("no permission")
    work = evaluation(tmp_path)
    with files_end_at(16), pytest.raises(GradingError):
        await work._run_sample(SAMPLE_ID, runner)
    assert "are not kept" in caplog.text


async def test_files_of_a_sample_record_its_settings(tmp_path: Path) -> None:
    await evaluation(tmp_path)._run_sample(SAMPLE_ID, FakeSampleRunner())
    (meta,) = written_metadata(tmp_path)
    assert meta.items() >= {**METADATA, "instance_id": TASK.instance_id, "temperature": 0.5, "sample": 0}.items()
    assert (meta["reward"], meta["group_index"], meta["index"]) == (1, f"{TASK.instance_id}-0", 0)
    assert meta["eval_result"] == meta["verdict"] and meta["verdict"]["status"] == "resolved"
