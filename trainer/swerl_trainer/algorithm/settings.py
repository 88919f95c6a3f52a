"""Settings of the learning rule, field by field. Pure data: no torch, no Ray."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from swerl_trainer.algorithm.errors import AlgorithmError

Objective = Literal["grpo", "gspo", "reinforce", "sft"]
Aggregation = Literal["token", "sequence"]


@dataclass(frozen=True)
class Correction:
    """Importance weights that repair the difference between the sampling engine and the trainer.

    `tis` clamps the ratio to [low, high] (truncated importance sampling); `mis` sets ratios outside [low, high] to 0
    (masked importance sampling). `level` decides whether the ratio is per token or the product over a sequence.
    """

    mode: Literal["none", "tis", "mis"] = "none"
    level: Literal["token", "sequence"] = "token"
    low: float = 0.0
    high: float = 2.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < self.high:
            raise AlgorithmError(f"correction bounds must satisfy 0 <= low < high, got {self.low} and {self.high}")


@dataclass(frozen=True)
class LossSettings:
    """What one optimiser step minimises."""

    objective: Objective = "grpo"
    clip_low: float = 0.2  # the ratio is clipped to [1 - clip_low, 1 + clip_high]
    clip_high: float = 0.28
    aggregation: Aggregation = "token"  # mean over all tokens, or over trajectories of the mean over their tokens
    kl_coef: float = 0.0  # weight of the k3 estimate of KL(policy || reference); 0 loads no reference
    entropy_coef: float = 0.0  # weight of the entropy bonus
    temperature: float = 1.0  # sampling temperature; the policy is the distribution at this temperature
    correction: Correction = field(default_factory=Correction)

    def __post_init__(self) -> None:
        if not 0.0 <= self.clip_low < 1.0 or self.clip_high < 0.0:
            got = f"got {self.clip_low} and {self.clip_high}"
            raise AlgorithmError(f"clip bounds must satisfy 0 <= low < 1 and high >= 0, {got}")
        if self.temperature <= 0.0:
            raise AlgorithmError(f"temperature must be positive, got {self.temperature}")

    def supervised(self) -> LossSettings:
        """The same settings for demonstrations: cross entropy, without the terms that compare policies."""
        return replace(self, objective="sft", kl_coef=0.0, entropy_coef=0.0, temperature=1.0, correction=Correction())
