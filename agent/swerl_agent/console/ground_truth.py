"""Reference fixes and tests of tasks, for viewers who asked for them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from swerl_agent.tasks import GroundTruth, Task, format_of, load_tasks


@dataclass
class GroundTruthSource:
    """The tasks at `path`, read when the first is asked for."""

    path: Path
    _tasks: dict[str, Task] | None = None
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def of(self, task: str) -> GroundTruth | None:
        """The ground truth of a task, None where it is not among them; raises TaskError for unreadable tasks."""
        with self._reading:
            if self._tasks is None:
                found = load_tasks(self.path, format_of(self.path))
                self._tasks = {each.instance_id: each for each in found}
        found_task = self._tasks.get(task)
        return found_task.ground_truth if found_task else None
