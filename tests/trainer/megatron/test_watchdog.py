"""A call that does not end leaves the stacks of its rank, and is reported by the group."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest
from swerl_trainer.events import event_reason
from swerl_trainer.megatron.errors import TrainerError
from swerl_trainer.megatron.group import TrainGroup
from swerl_trainer.megatron.watchdog import watched


def wait_for_another_rank(until: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not (until.is_file() and "wait_for_another_rank" in until.read_text()):
        time.sleep(0.02)


def test_stacks_of_a_call_that_does_not_end_are_written(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "rank-3.stacks.txt"
    with watched("train_step", file, 0.1):
        wait_for_another_rank(file)
    text = file.read_text()
    assert text.startswith("train_step has run for 0 s at ")
    assert "in wait_for_another_rank" in text


def test_nothing_is_written_for_a_call_that_ends(tmp_path: Path) -> None:
    with watched("train_step", tmp_path / "stacks.txt", 20.0):
        pass
    assert not any(tmp_path.iterdir())


def test_folder_that_cannot_be_written_stops_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    deadline = time.monotonic() + 20
    with watched("train_step", tmp_path / "file" / "stacks.txt", 0.05):
        while "stacks not written" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
    assert "train_step has run for" in caplog.text


async def answer(after: float, error: Exception | None = None) -> int:
    await asyncio.sleep(after)
    if error is not None:
        raise error
    return 1


class SlowRank:
    """A rank whose every call takes longer than the limit."""

    @property
    def run(self) -> SlowRank:
        return self

    def remote(self, *_: str) -> Awaitable[int]:
        return answer(0.3)


async def wait_for_a_report(group: TrainGroup, polls: int) -> int:
    for _ in range(polls):
        if group.stalls:
            break
        await asyncio.sleep(0.02)
    return 1


async def test_group_names_the_ranks_that_have_not_finished(caplog: pytest.LogCaptureFixture) -> None:
    group = TrainGroup([], watchdog_seconds=0.5, logs="/logs")
    polls = 40  # which take less than twice the limit: a rank that has finished delays no report
    calls: list[Awaitable[int]] = [answer(0.0), wait_for_a_report(group, polls), wait_for_a_report(group, polls)]
    with caplog.at_level(logging.WARNING):
        assert await group._all(calls) == [1, 1, 1]
    assert "ranks 1, 2 have not finished; stacks of all ranks: /logs/rank-*" in caplog.text
    assert group.stalls == 1
    assert [event_reason(record) for record in caplog.records] == ["RanksStalled"]


async def test_ranks_are_named_by_their_numbers_when_not_all_are_called(caplog: pytest.LogCaptureFixture) -> None:
    group = TrainGroup([], watchdog_seconds=0.1)
    with caplog.at_level(logging.WARNING):
        await group._all([answer(0.0), wait_for_a_report(group, 500)], ranks=[4, 6])
    assert "; ranks 6 have not finished;" in caplog.text
    with pytest.raises(TrainerError, match="training rank 6 failed: ValueError: lost"):
        await group._all([answer(0.0), answer(0.0, ValueError("lost"))], ranks=[4, 6])


async def test_group_reports_no_call_that_loads_a_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    group = TrainGroup([SlowRank(), SlowRank()], watchdog_seconds=0.05)
    with caplog.at_level(logging.WARNING):
        await group.load(Path("checkpoint"))
        assert (group.stalls, caplog.text) == (0, "")
        await group.set_learning_rate(0.1)
    assert group.stalls > 0


async def test_group_raises_a_failure_without_waiting_for_the_others() -> None:
    group = TrainGroup([], watchdog_seconds=60.0)
    began = time.monotonic()
    with pytest.raises(TrainerError, match="training rank 1 failed: ValueError: lost"):
        await group._all([answer(30.0), answer(0.0, ValueError("lost"))])
    assert time.monotonic() - began < 20
