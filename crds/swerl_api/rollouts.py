"""How episodes run and are judged: agent, sandbox, grading, judge."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import (
    AbsolutePath,
    ApiModel,
    Fraction,
    LabelValue,
    Name,
    NodeSelector,
    NonNegative,
    Positive,
    PullPolicy,
    PullSecrets,
    Resources,
    Rule,
    Text,
    Tolerations,
)
from .source import Source

Seconds = Annotated[int, Field(ge=1, le=604_800)]
AgentKind = Literal["builtin", "mini-swe-agent"]
ContextPolicy = Literal["omit", "stop"]

# Of every spec that has `agent`, `sandbox` and `grading`.
SANDBOX_RULES = (
    Rule(
        "self.agent.episodeTimeoutSeconds + 180 <= self.sandbox.lifetimeSeconds",
        "sandbox.lifetimeSeconds must be at least agent.episodeTimeoutSeconds + 180, so that no sandbox ends first",
        ".sandbox.lifetimeSeconds",
    ),
    Rule(
        "self.grading.timeoutSeconds < self.sandbox.lifetimeSeconds",
        "grading.timeoutSeconds must be below sandbox.lifetimeSeconds, the outer guard of one episode",
        ".grading.timeoutSeconds",
    ),
)


class ConfigMapKey(ApiModel):
    """One key of a ConfigMap."""

    name: Name
    """ConfigMap in the job's namespace."""
    key: Text = Field(min_length=1)
    """Key inside it."""


class PromptTemplates(ApiModel):
    """Where the prompts are."""

    config_map: ConfigMapKey
    """YAML with jinja2 templates: agent.system_template, instance_template, format_error_template,
    action_observation_template, turn_reminder_template; for mini-swe-agent a configuration in its own format."""


class Observation(ApiModel):
    """How command output is cut before the model sees it, in characters."""

    max_chars: Positive = 10_000
    """Output of at least this many characters is cut."""
    head_chars: NonNegative = 5_000
    """Characters kept from the start of cut output."""
    tail_chars: NonNegative = 5_000
    """Characters kept from the end of cut output."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.headChars + self.tailChars <= self.maxChars",
            "observation.headChars + tailChars must not exceed maxChars",
            ".headChars",
        ),
    )


class Agent(ApiModel):
    """Which agent acts in an episode, with which limits and prompts."""

    kind: AgentKind = "builtin"
    """builtin: the agent of this project; mini-swe-agent: the unmodified package of that name, answered by an endpoint
    that records the tokens."""
    prompt_templates: PromptTemplates | None = None
    """Own prompts; absent means the built-in ones."""
    protocol: Literal["mini-swe-agent-1", "first-block", "mini-swe-agent-2", "mini-swe-agent-2-tools"] = (
        "mini-swe-agent-1"
    )
    """How the model names its command. mini-swe-agent-1: exactly one block fenced as bash; first-block: the first such
    block; mini-swe-agent-2: exactly one fenced as mswea_bash_command, at most three answers in a row without, and no
    submission by a command that fails; mini-swe-agent-2-tools: the same with calls of a tool `bash`, for models whose
    chat template has tools."""
    format_error_limit: NonNegative | None = None
    """Answers in a row without a command that end an episode; 0 means no limit, absent the protocol's own."""
    repeat_limit: NonNegative | None = None
    """Times in a row the same command may run; the last ends the episode. 0 means no limit, absent the protocol's.
    Of kind builtin alone."""
    step_limit: Positive = 20
    """Turns of one episode at most."""
    command_timeout_seconds: Seconds = 180
    """Seconds one command may run before its process group is killed and the partial output returned."""
    episode_timeout_seconds: Seconds = 1800
    """Seconds one episode may take, from its sandbox being ready to its end."""
    context_tokens: int = Field(default=16_384, ge=64)
    """Tokens of prompt and answer together; what happens beyond it says contextPolicy."""
    context_policy: ContextPolicy = "omit"
    """What becomes of a conversation that leaves no room for an answer of maxTokensPerTurn. omit: turns between the
    first and the last ones are left out; stop: the episode ends as context_overflow, so that it is one unbroken
    sequence of tokens. Of kind builtin alone: mini-swe-agent's conversations end when nothing fits any more."""
    max_tokens_per_turn: int = Field(default=4_096, ge=1)
    """Tokens of one answer at most."""
    observation: Observation = Field(default_factory=Observation)
    """Cutting of command output."""
    head_ratio: Fraction = 0.3
    """Share of the context budget for the first turns when turns are left out; the rest is for the last ones."""
    chat_template: Text | None = None
    """Path of a jinja2 chat template inside the trainer Pods; absent means the tokenizer's own."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.commandTimeoutSeconds <= self.episodeTimeoutSeconds",
            "agent.commandTimeoutSeconds must not exceed agent.episodeTimeoutSeconds",
            ".commandTimeoutSeconds",
        ),
        Rule(
            "self.maxTokensPerTurn < self.contextTokens",
            "agent.maxTokensPerTurn must be below agent.contextTokens",
            ".maxTokensPerTurn",
        ),
        Rule(
            "self.kind != 'mini-swe-agent' || self.protocol.startsWith('mini-swe-agent-2')",
            "agent.kind mini-swe-agent speaks the protocols mini-swe-agent-2 and mini-swe-agent-2-tools",
            ".protocol",
        ),
        Rule(
            "self.kind != 'mini-swe-agent' || !has(self.repeatLimit) || self.repeatLimit == 0",
            "agent.repeatLimit is of agent.kind builtin; mini-swe-agent lets commands be repeated",
            ".repeatLimit",
        ),
        Rule(
            "self.kind != 'mini-swe-agent' || self.contextPolicy == 'omit'",
            "agent.contextPolicy is of agent.kind builtin; a full window ends conversations of mini-swe-agent anyway",
            ".contextPolicy",
        ),
    )


class RegistryRewrite(ApiModel):
    """Replaces a prefix of image references, e.g. docker.io/ by a mirror."""

    prefix: Annotated[str, Field(max_length=256)] = ""
    """References that start with this are rewritten; empty matches every reference."""
    replacement: Annotated[str, Field(max_length=256)]
    """What takes the place of the prefix."""


class Sandbox(ApiModel):
    """The Pods that episodes act in."""

    resources: Resources = Field(
        default_factory=lambda: Resources(
            requests={"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
            limits={"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"},
        )
    )
    """Resources of one sandbox."""
    runtime_class_name: Name | None = None
    """RuntimeClass of sandbox and grading Pods, e.g. gvisor; absent means the cluster's default."""
    host_users: bool | None = None
    """false: each sandbox has a user namespace of its own; absent means what the operator was told."""
    queue_name: LabelValue | None = None
    """Kueue LocalQueue that admits each group of sandboxes as a unit; absent means no queue. Apart from the job's own
    queueName: sandboxes in the queue that admitted the trainer could wait for quota that the trainer holds."""
    max_concurrent: Positive = 128
    """Sandbox Pods of this job alive at once; further groups wait, first come first served."""
    prefetch: int = Field(default=1, ge=0, le=64)
    """Groups declared ahead of the one being worked on, as far as maxConcurrent leaves room for one more; a group that
    waited so long that its lifetime could end before its episode is replaced."""
    registry_rewrite: Annotated[list[RegistryRewrite], Field(max_length=16)] = Field(default_factory=list)
    """Rewrites of task image references; the first match counts."""
    image_set: Name | None = None
    """SweImageSet of the task images; the job takes no Ray cluster before it is Ready."""
    egress: Literal["none", "allow"] = "none"
    """none: no network in or out, verified from inside before use; allow: the cluster's default."""
    pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets in the job's namespace."""
    image_pull_policy: PullPolicy = "IfNotPresent"
    """Never: sandbox and grading Pods whose image the node does not have fail at once, so that no episode waits for a
    registry (imageSet brings images ahead); IfNotPresent pulls them."""
    scrub_git: bool = True
    """Remove git history after the base commit, remotes and reflogs before the agent starts."""
    workdir: AbsolutePath = "/testbed"
    """Folder of the repository inside task images."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that may run sandbox and grading Pods."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints that sandbox and grading Pods tolerate."""
    lifetime_seconds: Seconds = 3600
    """Seconds a sandbox Pod lives at most, even with nobody left to delete it."""


class Grading(ApiModel):
    """The Jobs that grade patches."""

    timeout_seconds: Seconds = 600
    """Seconds the tests of one patch may run; then the verdict is `timeout`."""
    retries: int = Field(default=2, ge=0, le=10)
    """Further tries after an infrastructure failure; failed tests are never retried."""
    resources: Resources = Field(
        default_factory=lambda: Resources(requests={"cpu": "1", "memory": "2Gi"}, limits={"cpu": "1", "memory": "2Gi"})
    )
    """Resources of one grading Pod; equal requests and limits keep timing-sensitive tests steady."""
    protected_paths: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)] = Field(
        default_factory=list
    )
    """Glob patterns, relative to the repository, restored from the base commit before the tests run, in addition to the
    task's own test files."""
    cache: bool = True
    """Reuse the verdict of an identical patch on the same image and eval script."""
    max_concurrent: Positive = 32
    """Grading Jobs of this job alive at once."""


class TrainingGrading(Grading):
    """The Jobs that grade the patches of a training."""

    gold_canary_every: NonNegative = 10
    """Training steps between two gradings of a task's reference fix, which must pass; 0 means none. The metric
    sandbox/gold_canary_pass_rate tells how many did, so that broken grading is seen."""


class JudgeView(ApiModel):
    """How much of an episode the judge sees of the step it scores, and of those before."""

    history_steps: NonNegative = 8
    """Steps before it."""
    problem_chars: Positive = 8_000
    """Characters of the problem statement at most."""
    output_chars: int = Field(default=4_000, ge=1, le=4_000)
    """Characters of its commands' outputs at most, each."""
    history_output_chars: int = Field(default=1_000, ge=0, le=4_000)
    """Characters of the outputs before it at most, each."""


class Judge(ApiModel):
    """A second model that scores steps."""

    model: Source
    """The judge's model folder in Hugging Face format."""
    votes: int = Field(default=3, ge=1, le=32)
    """Votes per step; those that give no score are left out, a step without any is unscored."""
    aggregation: Literal["mean", "majority"] = "mean"
    """A step's score: the mean of its valid votes, or what most of them say (0 when tied)."""
    engines: Positive = 1
    """Inference engines of the judge."""
    gpus_per_engine: NonNegative = 0
    """GPUs of one judge engine; 0 runs it on CPU."""
    temperature: float = Field(default=1.0, ge=0, le=10)
    """Sampling temperature of votes."""
    max_tokens: Positive = 4096
    """Tokens of one vote at most."""
    context_tokens: int = Field(default=32_768, ge=64)
    """Tokens of the judge's prompt and vote together."""
    max_concurrent: Positive = 32
    """Votes asked for at once, over all episodes of the job."""
    skip_submit: bool = True
    """Leave the step that submits unscored: the tests judge it."""
    view: JudgeView = Field(default_factory=JudgeView)
    """What it is shown."""
    timeout_seconds: Seconds = 300
    """Seconds one vote may take, and all open votes once their episode has ended; steps not scored by then stay so."""
