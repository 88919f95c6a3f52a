"""What of the turns of a job's episodes their sandboxes take beyond the commands' own time, from its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.bench.figures import Figure

SHARE = 0.10


def share_of_a_turn(steps: Sequence[Mapping[str, float]]) -> Figure:
    """Of all turns of these steps together."""
    share = sum(map(_overhead_seconds, steps)) / sum(map(_run_seconds, steps))
    return Figure("sandbox_share_of_a_turn", share, SHARE)


def _overhead_seconds(step: Mapping[str, float]) -> float:
    """On the way to the sandboxes and back, of all turns of a step."""
    return step["sandbox/exec_overhead_per_turn"] * step["agent/turns_sum"]


def _run_seconds(step: Mapping[str, float]) -> float:
    """Of all turns of a step: the mean of its episodes, times their number."""
    return step["agent/agent_run_time_mean"] * step["agent/turns_sum"] / step["agent/turns_mean"]
