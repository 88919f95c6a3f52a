"""The gold canary: every few steps, the reference fix of a training task is graded as its patches are.

Guarantees: training never waits for it; at most one fix is graded at a time; cached verdicts and infrastructure
failures do not count. A fix that no longer passes means that grading or the task is broken, and that rewards are
unreliable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from swerl_agent.grading import Verdict

logger = logging.getLogger(__name__)

GradeFix = Callable[[int], Awaitable[Verdict | None]]  # the verdict on a task's reference fix; None: it has none


class GoldCanary:
    """Grades the fix of the next of `tasks` tasks every `every` steps (0: never)."""

    def __init__(self, grade: GradeFix, *, tasks: int, every: int) -> None:
        self._grade, self._tasks, self._every = grade, tasks, every
        self._running: asyncio.Task[None] | None = None
        self._passed = self._failed = 0

    def step(self, done: int) -> None:
        """Start a grading if it is due after `done` steps and the previous one has ended."""
        busy = self._running is not None and not self._running.done()
        if self._every and done % self._every == 0 and not busy:
            task = (done // self._every - 1) % self._tasks
            self._running = asyncio.create_task(self._grade_fix(task), name=f"gold canary of task {task}")

    @property
    def counts(self) -> tuple[int, int]:
        """Fixes that passed and failed since the attempt began."""
        return self._passed, self._failed

    async def close(self) -> None:
        """Cancel a grading that runs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _grade_fix(self, task: int) -> None:
        try:
            verdict = await self._grade(task)
        except Exception as error:
            logger.warning("the gold canary of task %d was not graded: %s", task, error)
            return
        if verdict is None or verdict.status == "infra_error":
            return
        self._passed += verdict.resolved
        self._failed += not verdict.resolved
        if not verdict.resolved:
            logger.error("the reference fix of task %d does not pass: %s: %s", task, verdict.status, verdict.detail)
