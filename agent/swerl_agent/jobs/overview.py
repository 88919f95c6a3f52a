"""One line for each job: the columns of `kubectl get swerl`, and why a job does not train. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from swerl_api import SweRLJobStatus
from swerl_api.swerljob import duration_words
from swerl_kube import Json

from swerl_agent.visible import visible

from .reasons import status_of, why

HEADS = ("NAME", "PHASE", "STEP", "REWARD", "RESOLVED", "SANDBOXES", "ETA", "AGE", "REASON")


@dataclass(frozen=True)
class JobRow:
    """A job in a list."""

    namespace: str
    name: str
    phase: str
    step: int | None
    steps: int | None
    reward_mean: float | None
    resolved_rate: float | None  # 0 to 1
    sandboxes_pending: int | None
    sandboxes_ready: int | None
    eta_seconds: int | None
    age_seconds: int
    reason: str  # of a condition; empty for a job that trains without a warning

    def as_json(self) -> dict[str, Any]:
        """Fields by name."""
        return asdict(self)

    def columns(self) -> tuple[str, ...]:
        """Texts in the order of HEADS."""
        sandboxes = "" if self.sandboxes_ready is None else f"{self.sandboxes_pending}/{self.sandboxes_ready}"
        return (
            self.name,
            self.phase,
            "" if self.step is None else f"{self.step}/{self.steps or '?'}",
            "" if self.reward_mean is None else f"{self.reward_mean:+.2f}",
            "" if self.resolved_rate is None else f"{100 * self.resolved_rate:.0f}%",
            sandboxes,
            "" if self.eta_seconds is None else duration_words(self.eta_seconds),
            duration_words(self.age_seconds),
            self.reason,
        )


def job_row(job: Json, now: datetime) -> JobRow:
    """The row of one SweRLJob."""
    metadata, status = job["metadata"], status_of(job)
    cause = why(job)
    return JobRow(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        phase=status.phase or "Pending",
        **_progress(status),
        age_seconds=age_seconds(metadata["creationTimestamp"], now),
        reason=cause.reason if cause else "",
    )


def _progress(status: SweRLJobStatus) -> dict[str, Any]:
    sandboxes = status.sandboxes
    return {
        "step": status.step,
        "steps": status.steps,
        "reward_mean": status.reward_mean,
        "resolved_rate": status.resolved_rate,
        "sandboxes_pending": sandboxes.pending if sandboxes else None,
        "sandboxes_ready": sandboxes.ready if sandboxes else None,
        "eta_seconds": status.eta_seconds,
    }


def age_seconds(time: str, now: datetime) -> int:
    """Seconds since `time` (RFC 3339)."""
    return max(0, round((now - datetime.fromisoformat(time)).total_seconds()))


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a table with columns as wide as their widest text; columns without any text are left out.
    Cells may come from a sandbox, so what a terminal would act on is shown as a character."""
    lines = [[*heads], *([visible(cell) for cell in row] for row in rows)]
    kept = [place for place in range(len(lines[0])) if any(line[place] for line in lines[1:])]
    widths = {place: max(len(line[place]) for line in lines) for place in kept}
    return ["   ".join(line[place].ljust(widths[place]) for place in kept).rstrip() for line in lines]
