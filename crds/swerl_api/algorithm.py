"""How the policy is improved: losses, advantages, sampling, corrections, supervised steps."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Fraction, NonNegative, Positive, RelativePath, Rule, immutable


class CorrectionSpec(ApiModel):
    """Importance correction for the gap between the engines' and the trainer's probabilities."""

    mode: Literal["none", "tis", "mis"] = "none"
    """none; tis: truncate importance ratios at `high`; mis: mask what lies outside [low, high]."""
    level: Literal["token", "sequence"] = "token"
    """Ratio per token or per sequence."""
    low: float = Field(default=0.0, ge=0)
    """Lower bound of the ratio (mis)."""
    high: float = Field(default=2.0, gt=0)
    """Upper bound of the ratio (tis, mis)."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.low < self.high", "correction.low must be below correction.high", ".low"),
    )


class StepwiseSpec(ApiModel):
    """Rewards per step from the judge, added to the outcome."""

    enabled: bool = False
    """Score every step of an episode; needs `judge`."""
    judge_weight: float = Field(default=1.0, ge=0)
    """Weight of the judge's score against the outcome's."""


class SupervisedData(ApiModel):
    """Supervised steps on demonstrations, before the reinforcement steps or alone (algorithm.name sft)."""

    data: RelativePath = Field(min_length=1)
    """Path of the demonstrations (JSONL of chat messages) inside the tasks source."""
    steps: Positive = 1
    """Optimizer steps."""
    batch_size: Positive = 8
    """Demonstrations per optimizer step."""
    lr: float = Field(default=1e-5, gt=0, le=1)
    """Learning rate of the supervised steps."""


class AlgorithmSpec(ApiModel):
    """How the policy is improved."""

    name: Literal["grpo", "gspo", "reinforce", "sft"] = Field(
        default="grpo", json_schema_extra=immutable("algorithm.name")
    )
    """grpo: group advantages, token ratios; gspo: sequence ratios; reinforce: no ratio; sft: supervised only."""
    steps: Positive = 100
    """Training steps, each one batch of `promptsPerStep` groups; may be raised while the job runs (next attempt)."""
    prompts_per_step: Positive = Field(default=8, json_schema_extra=immutable("algorithm.promptsPerStep"))
    """Prompts (groups) per training step."""
    group_size: int = Field(default=8, ge=1, le=1024, json_schema_extra=immutable("algorithm.groupSize"))
    """Episodes per prompt; they share one SweSandbox and one advantage baseline."""
    minibatches: Positive = 1
    """Optimizer updates per training step."""
    lr: float = Field(default=1e-6, gt=0, le=1)
    """Learning rate, constant."""
    weight_decay: float = Field(default=0.1, ge=0, le=1)
    """AdamW weight decay."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this global L2 norm."""
    clip_low: Fraction = 0.2
    """Ratios below 1 - clipLow give no gradient when the advantage is negative."""
    clip_high: float = Field(default=0.28, ge=0, le=10)
    """Ratios above 1 + clipHigh give no gradient when the advantage is positive."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the KL penalty against the start model; 0 loads no reference model."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    advantage_normalisation: Literal["std", "none"] = "std"
    """Divide advantages by the group's standard deviation, or not (Dr. GRPO)."""
    loss_aggregation: Literal["token", "sequence"] = "token"
    """Mean over all tokens of the batch, or mean of the sequences' means."""
    oversampling: float = Field(default=1.0, ge=1, le=8)
    """Groups started per step = ceil(promptsPerStep * oversampling); the first complete ones are used."""
    dynamic_filter: bool = True
    """Replace groups whose rewards are all equal; they carry no gradient."""
    unresolved_reward: float = Field(default=-1.0, ge=-1, le=0)
    """Reward of an episode that does not resolve its task; one that does has 1."""
    compact_filter: bool = False
    """Episodes that ended otherwise than by submitting (limits of turns, time, context) count in their group's mean
    and train nothing."""
    correction: CorrectionSpec = Field(default_factory=CorrectionSpec)
    """Correction of the engine/trainer mismatch."""
    stepwise: StepwiseSpec = Field(default_factory=StepwiseSpec)
    """Step rewards from a judge."""
    dynamic_history: bool = False
    """Train each step of an episode as its own sample, with the context the model really saw."""
    encoding: Literal["sampled", "text"] = "sampled"
    """What is trained. sampled: the tokens as engines read and sampled them; text: the episode's text, encoded again
    with the chat template, without the engines' log-probabilities, for comparison with systems that know no more.
    It may give other tokens than were sampled and, where templates strip thinking, other contexts than were read."""
    max_staleness: int = Field(default=0, ge=0, le=64)
    """How many weight versions old an episode may be; 0 is strictly on-policy."""
    partial_rollouts: bool = False
    """Keep unfinished episodes over a weight update instead of waiting for them; needs maxStaleness >= 1."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Sampling temperature of training episodes."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Share of the probability that is sampled from, in training and evaluation. Log-probs stay those of the whole
    distribution, so below 1 the ratios to the trainer's are not exact."""
    top_k: NonNegative = 0
    """Likeliest tokens that are sampled from, as `topP`; 0 means all."""
    seed: NonNegative = Field(default=0, json_schema_extra=immutable("algorithm.seed"))
    """Seed of sampling and of everything random in training."""
    sft: SupervisedData | None = None
    """Supervised warm start, or the whole training for algorithm.name sft."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.clipLow <= self.clipHigh", "algorithm.clipLow must not exceed algorithm.clipHigh", ".clipLow"),
        Rule("self.name != 'sft' || has(self.sft)", "algorithm.name sft needs algorithm.sft", ".sft"),
        Rule(
            "self.name in ['sft', 'reinforce'] || self.groupSize >= 2",
            "algorithm.groupSize must be at least 2: advantages compare the episodes of a group",
            ".groupSize",
        ),
        Rule(
            "!self.partialRollouts || self.maxStaleness >= 1",
            "algorithm.partialRollouts needs algorithm.maxStaleness >= 1",
            ".partialRollouts",
        ),
        Rule(
            "self.minibatches <= self.promptsPerStep * self.groupSize",
            "algorithm.minibatches must not exceed promptsPerStep * groupSize",
            ".minibatches",
        ),
        Rule(
            "self.encoding == 'sampled' || self.correction.mode == 'none'",
            "algorithm.correction needs the engines' log-probabilities, which algorithm.encoding text does not have",
            ".correction",
        ),
        Rule("has(self.sft) == has(oldSelf.sft)", "algorithm.sft cannot be added or removed", ".sft"),
    )
