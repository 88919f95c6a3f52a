"""The driver's part of a checkpoint, and the estimate of the remaining time. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

RECENT_STEPS = 5  # steps whose mean duration is the estimate for the next ones


@dataclass
class TrainingState:
    """The progress of a training. `position` and `pending` restore the order of tasks, see `rollout.dispatcher`."""

    step: int = 0  # training steps done
    supervised_step: int = 0  # supervised steps done
    position: int = 0
    pending: list[int] = field(default_factory=list)
    held_out: dict[str, float] = field(default_factory=dict)  # resolved rate by step, and `before`
    attempt: int = 1
    resume_step: int | None = None  # the step that `checkpoint.resume` names
    unchanged: list[int] = field(default_factory=list)  # steps that changed no weight

    @property
    def without_signal(self) -> int:
        """Steps in a row, up to the last one, that changed no weight."""
        changed = (done for done in range(self.step) if self.step - done not in self.unchanged)
        return next(changed, self.step)

    def as_json(self) -> dict[str, Any]:
        """JSON-able form."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrainingState:
        """The state of `as_json`."""
        return cls(**data)


class TimeEstimate:
    """Estimates remaining time from the durations of recent steps."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT_STEPS)

    def add(self, seconds: float) -> None:
        """Add the duration of a step."""
        self._recent.append(seconds)

    def remaining(self, steps: int) -> int | None:
        """Seconds that `steps` more steps take, None before the first step."""
        return round(steps * sum(self._recent) / len(self._recent)) if self._recent else None
