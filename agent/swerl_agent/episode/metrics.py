"""Figures of one episode, under the names that dashboards and agent servers of this field use. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from .episode import Episode

LOOP_CHARS = 10_000  # at the end of the generated text
LOOP_RATIO = 10  # by which they can be compressed when they go round in circles


def repeats_itself(episode: Episode) -> bool:
    """Whether the model ended in a loop: the end of its text can be compressed by more than LOOP_RATIO."""
    text = "".join(message["content"] for message in episode.messages if message["role"] == "assistant")
    end = text[-LOOP_CHARS:].encode("utf-8", "replace")
    return len(text) > LOOP_CHARS and len(end) > LOOP_RATIO * len(zlib.compress(end, 9))


def agent_metrics(episode: Episode, *, eval_time: float | None = None) -> dict[str, float]:
    """Counts, seconds and shares of time; `eval_time`: seconds its grading took. What was not measured is absent."""
    counts: dict[str, float] = {"turns": episode.turns, "tool_calls": len(episode.commands)}
    if episode.segments:
        counts["sequences"] = len(episode.segments)
    return counts | time_metrics(episode.turns, episode.timings, eval_time=eval_time)


def time_metrics(turns: int, timings: Mapping[str, float], *, eval_time: float | None = None) -> dict[str, float]:
    """Seconds and shares of an episode with these `turns` and `timings`; none when its whole time is not known."""
    run = timings.get("total")
    if run is None:
        return {}
    model, environment = timings.get("model", 0.0), timings.get("environment", 0.0)
    total = run + (eval_time or 0.0)
    metrics = {
        "model_query_time_sum": model,
        "env_execution_time_sum": environment,
        "agent_run_time": run,
        "overhead_time": max(0.0, run - model - environment),
        "total_time": total,
    }
    if "exec" in timings:
        metrics |= {"exec_overhead_time_sum": timings["exec"]}
        metrics |= {"exec_overhead_ratio": timings["exec"] / run} if run else {}
    if eval_time is not None:
        metrics["eval_time"] = eval_time
    if turns:
        metrics |= {
            "time_per_turn": run / turns,
            "model_query_time_avg": model / turns,
            "env_execution_time_avg": environment / turns,
        }
    if total:
        metrics |= {"model_time_ratio": model / total, "env_time_ratio": environment / total}
        metrics |= {} if eval_time is None else {"eval_time_ratio": eval_time / total}
    return metrics
