"""The training algorithm: losses, advantages, sampling, corrections, supervised steps."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Fraction, NonNegative, Positive, RelativePath, Rule, immutable

RatioLevel = Literal["token", "sequence", "geometric"]
ImportPath = Annotated[str, Field(max_length=256, pattern=r"^([A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+)?$")]


class RejectionSpec(ApiModel):
    """Removes tokens from the loss whose importance ratio lies outside the bounds."""

    level: RatioLevel = "geometric"
    """Ratio per token, product over the sequence, or geometric mean over the sequence."""
    low: float = Field(default=0.99, ge=0)
    """Lower bound of the ratio."""
    high: float = Field(default=1.01, gt=0)
    """Upper bound of the ratio."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.low < self.high", "correction.rejection.low must be below correction.rejection.high", ".low"),
    )


class CorrectionSpec(ApiModel):
    """Importance correction for differences between the engines' probabilities and the trainer's."""

    mode: Literal["auto", "none", "truncate", "clip", "mask"] = "auto"
    """truncate: limits ratios to `high` (TIS). clip: limits ratios to [low, high]. mask: removes tokens outside
    [low, high] from the loss (MIS). none: every weight is 1. auto: truncate if maxStaleness > 0, else none."""
    level: RatioLevel = "token"
    """Ratio per token, product over the sequence, or geometric mean over the sequence."""
    low: float = Field(default=0.0, ge=0)
    """Lower bound of the ratio (clip, mask)."""
    high: float = Field(default=2.0, gt=0)
    """Upper bound of the ratio."""
    veto: float = Field(default=0.0, ge=0, lt=1)
    """Removes a sequence from the loss if one of its tokens has a ratio below this, e.g. 1e-4; 0 is off."""
    batch_normalisation: bool = False
    """Divide the weights by their mean over the batch."""
    rejection: RejectionSpec | None = None
    """Removes tokens outside these bounds from the loss, in addition to the weights of `mode`."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.low < self.high", "correction.low must be below correction.high", ".low"),
    )


class LrSchedule(ApiModel):
    """Learning rate over the steps."""

    decay: Literal["constant", "linear", "cosine"] = "constant"
    """Rate after the warm-up: constant, or a decay that reaches `floor` at the last step."""
    warmup_steps: NonNegative = 0
    """Steps over which the rate rises linearly to its full value."""
    floor: Fraction = 0.0
    """Final rate of a decay, as a fraction of the full rate."""


class StepwiseSpec(ApiModel):
    """Step rewards from the judge, added to the outcome reward."""

    enabled: bool = False
    """Score every step of an episode; needs `judge`, and groups of at least 2 episodes."""
    judge_weight: float = Field(default=1.0, ge=0)
    """Weight of the judge's score against the outcome's."""


class SupervisedData(ApiModel):
    """Supervised steps on demonstrations; they precede the reinforcement steps, or are all (algorithm.name sft)."""

    data: RelativePath = Field(min_length=1)
    """Path of the demonstrations (JSONL of chat messages) inside the tasks source."""
    steps: Positive = 1
    """Optimizer steps."""
    batch_size: Positive = 8
    """Demonstrations per optimizer step."""
    lr: float = Field(default=1e-5, gt=0, le=1)
    """Learning rate of the supervised steps."""
    lr_schedule: LrSchedule = Field(default_factory=LrSchedule)
    """Warm-up and decay over the supervised steps."""


class AlgorithmSpec(ApiModel):
    """The training algorithm."""

    name: Literal[
        "grpo", "gspo", "cispo", "rloo", "reinforce", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "sft"
    ] = Field(default="grpo", json_schema_extra=immutable("algorithm.name"))
    """grpo: group advantages and token ratios. gspo: sequence ratios. cispo: clipped ratios as weights. rloo:
    leave-one-out advantages. reinforce: no ratio. reinforce_plus_plus: advantages normalised over the batch.
    reinforce_plus_plus_baseline: the same after the group's mean is subtracted. sft: supervised steps only."""
    loss: ImportPath = ""
    """Custom loss as `package.module.function`; replaces that of `name`. See docs/algorithms.md."""
    advantage: ImportPath = ""
    """Custom advantages as `package.module.function`; replace those of `name`."""
    reward: ImportPath = ""
    """Custom reward of an episode as `package.module.function`; replaces 1 and `unresolvedReward`."""
    steps: Positive = 100
    """Training steps of `promptsPerStep` groups each. A higher number takes effect at the next attempt."""
    prompts_per_step: Positive = Field(default=8, json_schema_extra=immutable("algorithm.promptsPerStep"))
    """Prompts (groups) per training step."""
    group_size: int = Field(default=8, ge=1, le=1024, json_schema_extra=immutable("algorithm.groupSize"))
    """Episodes per prompt; they share one SweSandbox and one advantage baseline."""
    minibatches: Positive = 1
    """Optimizer updates per training step; above 1 needs a loss with a ratio, which `name` reinforce does not have."""
    lr: float = Field(default=1e-6, gt=0, le=1)
    """Learning rate."""
    lr_schedule: LrSchedule = Field(default_factory=LrSchedule)
    """Warm-up and decay of the learning rate over `steps`."""
    weight_decay: float = Field(default=0.1, ge=0, le=1)
    """AdamW weight decay."""
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay per update of AdamW's mean of the gradients, in supervised steps too."""
    adam_beta2: float = Field(default=0.98, ge=0, lt=1)
    """Decay per update of AdamW's mean of the squared gradients, in supervised steps too."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Maximum global L2 norm of the gradient; larger gradients are scaled down."""
    clip_low: Fraction = 0.2
    """Ratios below 1 - clipLow give no gradient when the advantage is negative."""
    clip_high: float = Field(default=0.28, ge=0, le=10)
    """Ratios above 1 + clipHigh give no gradient when the advantage is positive."""
    dual_clip: float = Field(default=0.0, ge=0)
    """Upper bound of a token's loss when its advantage is negative, as a multiple of the advantage (dual-clip PPO).
    Above 1; 0 is off."""
    old_logprobs: Literal["trainer", "rollout"] = "trainer"
    """Denominator of the ratios. trainer: log-probabilities of the policy at the start of the step. rollout: those of
    the engines, so that the ratio also covers staleness and mismatch."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the KL penalty against the start model; 0 loads no reference model."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """Estimate of the KL divergence per token. k1: the log-ratio. k2: half its square. k3: unbiased and never negative.
    As a loss, k1 has an expected gradient of 0: use it with klIn reward."""
    kl_in: Literal["loss", "reward"] = "loss"
    """loss: penalty per token in the loss. reward: penalty summed over the trajectory, subtracted from its reward."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    advantage_normalisation: Literal["std", "none"] = "std"
    """std: divide advantages by the group's standard deviation. none: do not divide (Dr. GRPO)."""
    loss_aggregation: Literal["token", "sequence", "trajectory", "constant"] = "token"
    """token: mean over all tokens of the batch. sequence: mean of the sequences' means. trajectory: mean of the
    trajectories' means. constant: trajectories' sums, divided by `lengthConstant` and their number (Dr. GRPO)."""
    length_constant: NonNegative = 0
    """Divisor of each trajectory's sum with lossAggregation constant, in tokens; the same for every batch."""
    oversampling: float = Field(default=1.0, ge=1, le=8)
    """A step starts ceil(promptsPerStep * oversampling) groups and uses those that complete first."""
    dynamic_filter: bool = True
    """Replace groups whose rewards are all equal, since they have no gradient."""
    unresolved_reward: float = Field(default=-1.0, ge=-1, le=0)
    """Reward of an episode that does not resolve its task; a resolved task has reward 1."""
    compact_filter: bool = False
    """Do not train on episodes that ended at a limit (turns, time, context) instead of submitting. Their rewards still
    count in the group's mean."""
    correction: CorrectionSpec = Field(default_factory=CorrectionSpec)
    """Importance correction of the mismatch between engines and trainer."""
    stepwise: StepwiseSpec = Field(default_factory=StepwiseSpec)
    """Step rewards from a judge."""
    dynamic_history: bool = False
    """Train each step of an episode as its own sample, with the context that the model read."""
    encoding: Literal["sampled", "text"] = "sampled"
    """sampled: train on the tokens that engines read and sampled. text: encode the episode's text again with the chat
    template, without the engines' log-probabilities, for comparison with text-based systems. The new tokens may differ
    from the sampled ones; templates that strip thinking also change the context."""
    max_staleness: int = Field(default=0, ge=0, le=64)
    """Maximum age of an episode: changes of the weights between those that it was started with and those that it
    trains. 0 is strictly on-policy."""
    partial_rollouts: bool = False
    """Continue unfinished episodes after a weight update instead of waiting for them; needs maxStaleness >= 1."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Sampling temperature of training episodes."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Probability mass to sample from (nucleus sampling), in training and evaluation. Log-probs are those of the whole
    distribution, so below 1 the ratios to the trainer's are not exact."""
    top_k: NonNegative = 0
    """Number of most likely tokens to sample from, in training and evaluation; 0 means all."""
    seed: NonNegative = Field(default=0, json_schema_extra=immutable("algorithm.seed"))
    """Seed of sampling and of all random choices in training."""
    sft: SupervisedData | None = None
    """Supervised steps before the reinforcement steps; with algorithm.name sft, the whole training."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.clipLow <= self.clipHigh", "algorithm.clipLow must not exceed algorithm.clipHigh", ".clipLow"),
        Rule("self.name != 'sft' || has(self.sft)", "algorithm.name sft needs algorithm.sft", ".sft"),
        Rule(
            "self.groupSize >= 2 || self.name in ['sft', 'reinforce', 'reinforce_plus_plus'] || self.advantage != ''",
            "algorithm.groupSize must be at least 2: advantages compare the episodes of a group",
            ".groupSize",
        ),
        Rule(
            "self.dualClip == 0.0 || self.dualClip > 1.0",
            "algorithm.dualClip must be above 1, or 0 for none",
            ".dualClip",
        ),
        Rule(
            "self.lossAggregation != 'constant' || self.lengthConstant > 0",
            "algorithm.lossAggregation constant needs algorithm.lengthConstant",
            ".lengthConstant",
        ),
        Rule(
            "!self.stepwise.enabled || (self.klIn == 'loss' && self.advantage == ''"
            " && self.name in ['grpo', 'gspo', 'cispo', 'reinforce', 'sft'])",
            "algorithm.stepwise needs klIn loss and name grpo, gspo, cispo or reinforce without own advantage",
            ".stepwise",
        ),
        Rule(
            "!self.stepwise.enabled || self.groupSize >= 2 || self.name == 'sft'",
            "algorithm.stepwise compares the episodes of a group: groupSize must be at least 2",
            ".groupSize",
        ),
        Rule(
            "self.minibatches == 1 || self.name != 'reinforce' || self.loss != ''",
            "algorithm.minibatches above 1 needs a loss with a ratio (not reinforce): its later updates are off-policy",
            ".minibatches",
        ),
        Rule(
            "self.maxStaleness == 0 || self.name == 'sft' || self.oldLogprobs == 'rollout'"
            " || self.correction.mode != 'none'",
            "algorithm.correction.mode none with maxStaleness > 0 would train stale episodes as if they were on-policy;"
            " use auto, truncate, clip or mask, or oldLogprobs rollout",
            ".correction",
        ),
        Rule(
            "self.oldLogprobs == 'trainer' || (self.name != 'reinforce' && self.correction.mode in ['auto', 'none']"
            " && self.correction.veto == 0.0 && !has(self.correction.rejection))",
            "algorithm.oldLogprobs rollout needs a loss with a ratio (not reinforce) and leaves nothing to correct:"
            " remove correction",
            ".oldLogprobs",
        ),
        Rule(
            "self.encoding == 'sampled' || (self.maxStaleness == 0 && self.oldLogprobs == 'trainer')",
            "algorithm.maxStaleness and oldLogprobs rollout need the engines' log-probabilities, which"
            " algorithm.encoding text does not have",
            ".encoding",
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
            "self.encoding == 'sampled' || (self.correction.mode in ['auto', 'none'] && self.correction.veto == 0.0"
            " && !has(self.correction.rejection))",
            "algorithm.correction needs the engines' log-probabilities, which algorithm.encoding text does not have",
            ".correction",
        ),
        Rule("has(self.sft) == has(oldSelf.sft)", "algorithm.sft cannot be added or removed", ".sft"),
    )
