"""The gold canary beside a training."""

from __future__ import annotations

import asyncio
import logging

import pytest
from swerl_agent.grading import Verdict
from swerl_trainer.rollout.canary import GoldCanary


class FakeGrading:
    """Grades reference fixes as a test says; remembers of which tasks."""

    def __init__(self, *answers: Verdict | Exception | None) -> None:
        self.answers, self.tasks = list(answers), list[int]()
        self.release = asyncio.Event()
        self.release.set()

    async def grade(self, task: int) -> Verdict | None:
        self.tasks.append(task)
        await self.release.wait()
        answer = self.answers.pop(0) if self.answers else Verdict("resolved")
        if isinstance(answer, Exception):
            raise answer
        return answer


async def run_steps(canary: GoldCanary, steps: int) -> None:
    for step in range(1, steps + 1):
        canary.step(step)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_canary_grades_another_task_every_few_steps() -> None:
    fixes = FakeGrading()
    canary = GoldCanary(fixes.grade, tasks=2, every=3)
    await run_steps(canary, 9)
    assert fixes.tasks == [0, 1, 0]
    assert canary.counts == (3, 0)


async def test_failing_fix_is_counted_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    canary = GoldCanary(FakeGrading(Verdict("unresolved", detail="FAIL_TO_PASS 0/1")).grade, tasks=5, every=1)
    with caplog.at_level(logging.ERROR):
        await run_steps(canary, 2)
    assert canary.counts == (1, 1)
    assert "task 0 does not pass: unresolved: FAIL_TO_PASS 0/1" in caplog.text


@pytest.mark.parametrize("answer", [Verdict("infra_error"), None, RuntimeError("worker lost")])
async def test_answer_that_is_no_verdict_does_not_count(answer: Verdict | Exception | None) -> None:
    canary = GoldCanary(FakeGrading(answer).grade, tasks=5, every=1)
    await run_steps(canary, 1)
    assert canary.counts == (0, 0)


async def test_slow_canary_blocks_nothing_and_ends_with_the_training() -> None:
    fixes = FakeGrading()
    fixes.release.clear()
    canary = GoldCanary(fixes.grade, tasks=5, every=1)
    await run_steps(canary, 4)
    assert fixes.tasks == [0]
    await canary.close()
    assert canary.counts == (0, 0)


async def test_no_samples_are_graded_when_none_are_requested() -> None:
    fixes = FakeGrading()
    await run_steps(GoldCanary(fixes.grade, tasks=5, every=0), 5)
    assert fixes.tasks == []
