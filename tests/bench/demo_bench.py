"""The demo over three seeds: what it learns, how long it takes, whether engine and trainer agree.

Prints one line per figure, `name ours goal ok|short`, and exits 0 only if all hold. QUICK=1 runs one seed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from demo.cluster import swerl_home
from demo.run import demo

PASS_STEPS = 4  # steps that see every training task once: 32 tasks, 8 prompts a step


@dataclass(frozen=True)
class Figure:
    name: str
    ours: float
    goal: float
    at_least: bool

    @property
    def holds(self) -> bool:
        return self.ours >= self.goal if self.at_least else self.ours <= self.goal

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{self.name:38} {self.ours:12.4g}   {sign} {self.goal:<8g} {'ok' if self.holds else 'short'}"


def train_rise(summary: dict[str, Any]) -> float:
    """Points between the first and the last pass over the training tasks."""
    rates = summary["resolved_rates"]
    return 100 * (fmean(rates[-PASS_STEPS:]) - fmean(rates[:PASS_STEPS]))


def held_out_rise(summary: dict[str, Any]) -> float:
    return 100 * float(summary["held_out_after"] - summary["held_out_before"])


def reward_rise(summary: dict[str, Any]) -> float:
    rewards = summary["rewards"]
    return fmean(rewards[-PASS_STEPS:]) - fmean(rewards[:PASS_STEPS])


def figures(summaries: list[dict[str, Any]]) -> list[Figure]:
    seconds = [summary["seconds"]["job_complete"] for summary in summaries]
    distance = max(max(summary["logprob_max_abs_diff"]) for summary in summaries)
    return [
        Figure("training tasks, points risen (mean)", fmean(map(train_rise, summaries)), 40, True),
        Figure("held-out tasks, points risen (mean)", fmean(map(held_out_rise, summaries)), 20, True),
        Figure("reward mean risen (least seed)", min(map(reward_rise, summaries)), 0, True),
        Figure("apply to Complete, seconds (slowest)", max(seconds), 900, False),
        Figure("trainer-engine log-prob distance (max)", distance, 1e-4, False),
    ]


def main() -> int:
    seeds = range(1 if os.environ.get("QUICK") else 3)
    summaries = [demo(seed, swerl_home() / "bench-demo" / str(seed)) for seed in seeds]
    table = figures(summaries)
    print(f"\n{len(summaries)} seeds")
    for figure in table:
        print(figure)
    return 0 if all(figure.holds for figure in table) else 1


if __name__ == "__main__":
    sys.exit(main())
