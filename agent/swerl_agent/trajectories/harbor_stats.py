"""Sums over the trials of a harbor job, as its list of jobs shows them (harbor's JobStats)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from .portable import given

TOKENS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")


@dataclass
class _TrialGroup:
    """Trials of one agent, model and data set."""

    rewards: list[Mapping[str, float]] = field(default_factory=list)
    trials: dict[str, dict[float, list[str]]] = field(default_factory=dict)  # by reward and its value
    lost: dict[str, list[str]] = field(default_factory=dict)  # by type of exception

    def stats(self) -> dict[str, Any]:
        names = sorted({name for rewards in self.rewards for name in rewards})
        means = {name: fmean(rewards[name] for rewards in self.rewards if name in rewards) for name in names}
        return {
            "n_trials": len(self.rewards),
            "n_errors": sum(map(len, self.lost.values())),
            "metrics": [means] if means else [],
            "reward_stats": self.trials,
            "exception_stats": self.lost,
        }


class HarborStats:
    """Counts trials: `add` the result of each. A lost trial has no reward, and no part in a mean."""

    def __init__(self) -> None:
        self.trials = 0
        self._lost = 0
        self._evaluations: dict[str, _TrialGroup] = {}
        self._sums: dict[str, float] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Count a trial's result.json."""
        self.trials += 1
        name, agent = result["trial_name"], result["agent_info"]
        model = agent.get("model_info", {}).get("name")
        key = "__".join(filter(None, (agent["name"], model, result.get("source", "adhoc"))))
        evaluation = self._evaluations.setdefault(key, _TrialGroup())
        if exception := result.get("exception_info"):
            self._lost += 1
            evaluation.lost.setdefault(exception["exception_type"], []).append(name)
        if verified := result.get("verifier_result"):
            evaluation.rewards.append(verified["rewards"])
            for reward, value in verified["rewards"].items():
                evaluation.trials.setdefault(reward, {}).setdefault(value, []).append(name)
        for each in TOKENS:
            if (value := result["agent_result"].get(each)) is not None:
                self._sums[each] = self._sums.get(each, 0) + value

    def stats(self) -> dict[str, Any]:
        """The `stats` of the job's result.json."""
        return given(
            n_completed_trials=self.trials,
            n_errored_trials=self._lost,
            evals={key: evaluation.stats() for key, evaluation in self._evaluations.items()},
            **self._sums,
        )
