"""Why a training refuses tasks of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable

from .task import Task


def benchmark_refusal(tasks: Iterable[Task]) -> str | None:
    """Why `tasks` must not be trained on, or None."""
    measured = [task for task in tasks if task.benchmark]
    if not measured:
        return None
    sources = ", ".join(sorted({task.data_source or f"{task.repo}, of no named source" for task in measured}))
    return (
        f"{len(measured)} tasks are of a benchmark ({sources}), the first is {measured[0].instance_id}: training on"
        " them makes its results worthless. Import them with --purpose evaluation, with the --data-source"
        " they are of, or, if you mean it, with --train-on-benchmark"
    )
