"""The curves of a job from its metrics.jsonl. Incomplete lines and values that are no numbers are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swerl_agent.trajectories.fields import number, text

Points = Sequence[tuple[float, float]]
NOT_METRICS = frozenset({"kind", "step", "attempt", "time"})
CURVES: Sequence[tuple[str, tuple[str, ...]]] = (
    ("Reward", ("rollout/raw_reward",)),
    ("Resolved", ("rollout/resolved_rate", "eval/resolved_rate")),
    ("Loss", ("train/loss", "train/pg_loss")),
    ("KL", ("train/ppo_kl", "train/kl_loss")),
    ("Mismatch of trainer and engines", ("train/mismatch_kl", "train/train_rollout_logprob_abs_diff")),
    ("Gradient norm", ("train/grad_norm",)),
    ("Entropy", ("train/entropy_loss",)),
    ("Tokens per second", ("perf/train_tokens_per_second", "perf/tokens_per_gpu_per_sec")),
    (
        "Seconds of a step",
        ("perf/step_time", "perf/rollout_time", "perf/train_time", "perf/update_weights_time", "perf/checkpoint_time"),
    ),
    ("Staleness", ("rollout/weight_staleness/mean", "rollout/weight_staleness/max")),
    ("Sampled tokens of an episode", ("rollout/response_len/mean", "rollout/response_len/max")),
    ("Turns", ("agent/turns_mean",)),
    ("Lost to infrastructure", ("sandbox/infra_failed_rate",)),
)


@dataclass(frozen=True)
class JobSeries:
    """Every metric of a job, by its name: value by step, of training steps and of evaluations."""

    series: Mapping[str, Points]
    step: int | None = None  # the newest training step
    attempt: int | None = None
    time: float | None = None  # of the newest row, seconds since 1970

    def newest(self) -> dict[str, float]:
        """The newest value of each metric."""
        return {name: points[-1][1] for name, points in sorted(self.series.items()) if points}


def read_metrics(path: Path) -> JobSeries:
    """The metrics in a file; none where it is missing. Of several rows about one step the last counts."""
    series: dict[str, dict[float, float]] = {}
    step: int | None = None
    attempt, time = None, None
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return JobSeries({})
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        at = number(row.get("step")) if isinstance(row, dict) else None
        if at is None:
            continue
        kind = text(row.get("kind"))
        attempt, time = number(row.get("attempt")), number(row.get("time"))
        step = int(at) if kind == "step" else step
        for name, value in row.items():
            found = number(value)
            if name not in NOT_METRICS and found is not None:
                series.setdefault(f"supervised/{name}" if kind == "supervised" else name, {})[at] = found
    ordered = {name: sorted(points.items()) for name, points in series.items()}
    return JobSeries(ordered, step, None if attempt is None else int(attempt), time)
