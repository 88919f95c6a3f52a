"""An evaluation over samples whose outcomes the test sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from swerl_agent.episode import Agent, Episode, EpisodeRequest, GradedEpisode, PromptError
from swerl_agent.evaluation import (
    Evaluation,
    EvaluationAborted,
    SampleRecord,
    SampleRecords,
    SummaryWriter,
    check_records,
)
from swerl_agent.grading import Verdict
from swerl_agent.sandbox import ImagePullFailed, LeaseLost
from swerl_agent.tasks import GroundTruth, Task, TaskError
from swerl_api import SampleSpec, SandboxSpec

from tests.full_disk import files_end_at

TASK = Task("a__a-1", "a/a", "0" * 40, "1", "It breaks.", "image", GroundTruth("sh", "gold", "", ("t::a",), ()))
NOTHING = cast(Any, None)
BROKEN = "agent.instance_template does not render: UndefinedError: 'x' is undefined, in line 2: {{ x }}"
PATCH = "diff --git a/x b/x\n"
BUSY = "EngineError: http://e/generate gave no answer after 8 retries: HTTP 429: busy"

NO_REPOSITORY = "NoRepository: the image x has no git repository at /testbed; give the repository's folder as `workdir`"


def tasks(count: int) -> list[Task]:
    return [replace(TASK, instance_id=f"a__a-{number}") for number in range(count)]


def solved() -> GradedEpisode:
    return GradedEpisode(Episode("t", "g", 0, patch=PATCH, exit_status="submitted"), Verdict("resolved"))


def lost(error: str = BUSY) -> GradedEpisode:
    return GradedEpisode(
        Episode("t", "g", 0, infrastructure_error=True, error=error, exit_status="infrastructure_error")
    )


def prompt_failed() -> GradedEpisode:
    return GradedEpisode(Episode("t", "g", 0, exit_status="prompt_failed", error_code="prompt_failed", error=BROKEN))


class ScriptedRunner:
    """Returns the outcomes in order."""

    sandbox = SandboxSpec()

    def __init__(self) -> None:
        self.outcomes: Iterator[GradedEpisode | Exception] = iter(())
        self.lost: Future[None] = Future()

    async def run(self, request: EpisodeRequest, agent: Agent) -> GradedEpisode:
        outcome = next(self.outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def runner() -> Any:
    return ScriptedRunner()


def evaluation(folder: Path, count: int) -> Evaluation:
    return Evaluation(tasks(count), NOTHING, SampleSpec(workers=1), SampleRecords(folder), folder)


async def test_finished_sample_is_not_repeated(tmp_path: Path, runner: Any) -> None:
    records = SampleRecords(tmp_path)
    records.add(
        SampleRecord(TASK.instance_id, 0, True, True, "submitted", "resolved", "submission", 3, None, 12.5, "run-1")
    )
    work = Evaluation([TASK], NOTHING, SampleSpec(), records, tmp_path)
    await work.run(runner)
    assert work.left == []


async def test_summary_and_predictions_hold_each_sample_when_it_ends(tmp_path: Path, runner: Any) -> None:
    orders: list[tuple[int, list[str]]] = []

    def episodes() -> Iterator[GradedEpisode]:
        for _ in range(3):
            if (tmp_path / "preds.json").exists():
                predicted = json.loads((tmp_path / "preds.json").read_text())
                assert all(row["model_patch"] == PATCH for row in predicted.values())
                orders.append((json.loads((tmp_path / "summary.json").read_text())["resolved"], sorted(predicted)))
            yield solved()

    runner.outcomes = episodes()
    records = SampleRecords(tmp_path)
    summary_writer = SummaryWriter(tmp_path, records, {"model": "m"})
    how = SampleSpec(workers=1)
    await Evaluation(tasks(3), NOTHING, how, records, tmp_path, write_summary=summary_writer.write).run(runner)
    assert orders == [(1, ["a__a-0"]), (2, ["a__a-0", "a__a-1"])]
    assert json.loads((tmp_path / "summary.json").read_text())["resolved"] == 3


async def test_conclusions_that_cannot_be_written_leave_those_before_whole(tmp_path: Path) -> None:
    records = SampleRecords(tmp_path)
    record = SampleRecord(TASK.instance_id, 0, True, True, "submitted", "resolved", "submission", 3, None, 12.5, "")
    summary_writer = SummaryWriter(tmp_path, records, {"model": "m"})
    records.add(record)
    summary_writer.write()
    contents_before = (tmp_path / "summary.json").read_bytes(), (tmp_path / "preds.json").read_bytes()
    records.add(replace(record, sample=1))
    with files_end_at(100), pytest.raises(OSError, match="is unchanged"):
        summary_writer.write()
    assert ((tmp_path / "summary.json").read_bytes(), (tmp_path / "preds.json").read_bytes()) == contents_before
    summary_writer.write()
    assert json.loads((tmp_path / "summary.json").read_text())["samples"] == 2


async def test_image_that_cannot_be_pulled_fails_only_its_own_episode(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([solved(), ImagePullFailed("no such image: x:1"), solved()])
    work = evaluation(tmp_path, 3)
    await work.run(runner)
    assert work.left == [("a__a-1", 0)]
    found = {record.instance_id: record for record in SampleRecords(tmp_path).all}
    assert (found["a__a-1"].valid, found["a__a-1"].error) == (False, "ImagePullFailed: no such image: x:1")
    assert all(found[name].resolved for name in ("a__a-0", "a__a-2"))


async def test_unreachable_endpoint_ends_the_evaluation_and_keeps_results(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([solved(), *(lost() for _ in range(40))])
    with pytest.raises(
        EvaluationAborted, match=r"ended the last 20 samples; the last error: EngineError: .*HTTP 429: busy"
    ):
        await evaluation(tmp_path, 40).run(runner)
    records = SampleRecords(tmp_path).all
    assert [record.resolved for record in records if record.valid] == [True]
    assert len([record for record in records if not record.valid]) == 20
    runner.outcomes = iter(solved() for _ in range(39))
    second = evaluation(tmp_path, 40)
    await second.run(runner)
    assert second.left == []


async def test_lost_lease_ends_the_evaluation_at_once(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([solved(), LeaseLost("Lease n/l was lost: it was deleted"), solved()])
    runner.lost.set_exception(LeaseLost("Lease n/l was lost: it was deleted"))
    with pytest.raises(LeaseLost, match="it was deleted"):
        await evaluation(tmp_path, 3).run(runner)
    assert [record.resolved for record in SampleRecords(tmp_path).all] == [True], "what is known stays"


async def test_task_whose_prompt_does_not_render_fails_only_its_own_episode(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([solved(), prompt_failed(), solved()])
    work = evaluation(tmp_path, 3)
    await work.run(runner)
    assert (work.left, work.retryable) == ([("a__a-1", 0)], [])
    check_records(SampleRecords(tmp_path))
    found = SampleRecords(tmp_path).all[1]
    assert (found.valid, found.exit_status, found.error) == (False, "prompt_failed", BROKEN)
    assert (tmp_path / found.run_dir / "traj.json").exists()
    runner.outcomes = iter([solved()])
    second = evaluation(tmp_path, 3)
    await second.run(runner)
    assert second.left == []


async def test_prompts_that_never_render_end_the_evaluation_by_line_and_keep_results(
    tmp_path: Path, runner: Any
) -> None:
    runner.outcomes = iter([solved(), *(prompt_failed() for _ in range(40))])
    with pytest.raises(PromptError, match=r"ended the last 20 samples, the last at a__a-20: agent\.instance_.*line 2"):
        await evaluation(tmp_path, 40).run(runner)
    records = SampleRecords(tmp_path).all
    assert [record.resolved for record in records if record.valid] == [True] and len(records) == 21


async def test_few_samples_that_all_lack_a_prompt_are_no_result(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([prompt_failed(), prompt_failed()])
    await evaluation(tmp_path, 2).run(runner)
    with pytest.raises(PromptError, match=r"ended all 2 samples, the last at a__a-1: agent\.instance_template"):
        check_records(SampleRecords(tmp_path))


async def test_images_without_a_repository_end_the_evaluation(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([lost(NO_REPOSITORY) for _ in range(40)])
    few, many = tmp_path / "few", tmp_path / "many"
    await evaluation(few, 2).run(runner)
    with pytest.raises(TaskError, match=r"taken of all 2 samples, the last at a__a-1: NoRepository: .* no git reposi"):
        check_records(SampleRecords(few))
    with pytest.raises(TaskError, match=r"taken of the last 20 samples"):
        await evaluation(many, 38).run(runner)


async def test_full_disk_ends_the_evaluation_with_one_error_and_keeps_results(tmp_path: Path, runner: Any) -> None:
    runner.outcomes = iter([solved(), solved(), solved()])
    await evaluation(tmp_path, 1).run(runner)
    contents_before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with files_end_at(16), pytest.raises(OSError, match="cannot be written: File too large"):
        await evaluation(tmp_path, 2).run(runner)
    assert {path: path.read_bytes() for path in contents_before} == contents_before
    second = evaluation(tmp_path, 2)
    assert second.left == [("a__a-1", 0)]
    await second.run(runner)
    assert second.left == []
