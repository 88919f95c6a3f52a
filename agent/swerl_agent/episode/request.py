"""`EpisodeRequest`: one episode to run, and what it reports to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from swerl_api import SandboxSpec

from swerl_agent.tasks import Task

from .episode import Episode


class StepScoring(Protocol):
    """Scores the steps of one episode while it runs; `swerl_agent.judge.Scoring` is one."""

    def step(self, number: int, answer: str, commands: Sequence[dict[str, Any]], *, submits: bool = False) -> None:
        """Take answer `number` (from 0) and its command records, of which the last may submit; returns at once.

        Never raises.
        """
        ...


@dataclass(frozen=True)
class EpisodeRequest:
    """One episode of an agent at `task`, as member `index` of `group`."""

    task: Task
    group: str
    index: int
    temperature: float
    workdir: str = SandboxSpec.model_fields["workdir"].default  # folder of the repository in the task's image
    scoring: StepScoring | None = None
    live: Path | None = None  # folder of the episode's live file, that of its artifacts; None: there is none
    on_end: Callable[[Episode], None] | None = None
    """Called with the episode at its end, also after cancellation and programming errors."""

    @property
    def routing_key(self) -> str:
        """Routes the requests of one group to the engine that caches their common prefix."""
        return f"{self.group}/{self.task.instance_id}"
