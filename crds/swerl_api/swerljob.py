"""SweRLJob: one reinforcement-learning run as one object."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from .agent import AgentSpec
from .algorithm import AlgorithmSpec
from .base import ApiModel, LabelValue, LogFormat, NonNegative, Rule, StatusModel, immutable
from .checkpoint import CheckpointSpec
from .conditions import Condition
from .engines import RolloutEngines
from .grading import TrainingGradingSpec
from .judge import JudgeSpec
from .model import ModelSpec
from .sandbox import SANDBOX_RULES, SandboxSpec
from .tasks import HeldOutSpec, TasksSpec
from .trainer import TrainerSpec

JobPhase = Literal["Pending", "Blocked", "Starting", "Training", "Retrying", "Suspended", "Complete", "Failed"]
MAX_JOB_NAME = 40  # leaves room for `-<attempt>` and for what KubeRay and Kubernetes append


class SweRLJobSpec(ApiModel):
    """Desired state. A field that may change takes effect at the next attempt, unless stated otherwise."""

    model: ModelSpec = Field(json_schema_extra=immutable("model"))
    """The model that is trained."""
    tasks: TasksSpec = Field(json_schema_extra=immutable("tasks"))
    """The tasks it is trained on."""
    algorithm: AlgorithmSpec = Field(default_factory=AlgorithmSpec)
    """The training algorithm."""
    agent: AgentSpec = Field(default_factory=AgentSpec)
    """Kind, limits and prompts of the agent."""
    sandbox: SandboxSpec = Field(default_factory=SandboxSpec)
    """The Pods in which episodes run commands."""
    grading: TrainingGradingSpec = Field(default_factory=TrainingGradingSpec)
    """The Jobs that grade patches."""
    judge: JudgeSpec | None = Field(default=None, json_schema_extra=immutable("judge"))
    """A second model that scores steps; absent means outcome rewards only."""
    trainer: TrainerSpec
    """The Megatron ranks and the image of all Ray Pods."""
    rollout: RolloutEngines = Field(default_factory=RolloutEngines)
    """The inference engines."""
    colocate: bool = Field(default=False, json_schema_extra=immutable("colocate"))
    """Trainer ranks and engines take turns on the same GPUs, in the same Pods."""
    checkpoint: CheckpointSpec
    """Where checkpoints and artifacts go."""
    evaluation: HeldOutSpec | None = Field(default=None, json_schema_extra=immutable("evaluation"))
    """Held-out tasks; absent means no evaluation."""
    retries: int = Field(default=3, ge=0, le=100)
    """Attempts after the first, when the driver fails or the head Pod is lost. A change takes effect at once."""
    suspend: bool = False
    """True deletes the running attempt's cluster and keeps its checkpoints; false again starts the next attempt."""
    queue_name: LabelValue | None = Field(default=None, json_schema_extra=immutable("queueName"))
    """Kueue LocalQueue that admits the RayCluster; absent means no queue."""
    log_format: LogFormat = "text"
    """Log lines of driver, rollout workers and ranks: text, or JSON objects with job, attempt, step and episode."""
    active_deadline_seconds: Annotated[int, Field(ge=1)] | None = None
    """Seconds from the first attempt's start after which the job fails; absent means never. They count from the start
    again when a failed job is retried on request (swerl.dev/retry)."""
    ttl_seconds_after_finished: NonNegative | None = None
    """Seconds after which a finished SweRLJob is deleted, with the objects it created; absent means never."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.judge) == has(oldSelf.judge)", "judge cannot be added or removed", ".judge"),
        Rule("has(self.evaluation) == has(oldSelf.evaluation)", "evaluation cannot be added or removed", ".evaluation"),
        Rule("has(self.queueName) == has(oldSelf.queueName)", "queueName cannot be added or removed", ".queueName"),
        Rule(
            "!self.algorithm.stepwise.enabled || has(self.judge)",
            "algorithm.stepwise.enabled needs judge",
            ".algorithm.stepwise",
        ),
        Rule(
            "self.agent.kind == 'builtin' || self.algorithm.encoding == 'sampled'",
            "algorithm.encoding text is for agent.kind builtin: the endpoint of another agent has its tokens",
            ".algorithm.encoding",
        ),
        Rule(
            "self.agent.kind == 'builtin' || !has(self.judge)",
            "judge scores the steps of agent.kind builtin only",
            ".judge",
        ),
        Rule(
            "(self.trainer.gpus == 0) == (self.rollout.gpusPerEngine == 0)",
            "trainer.gpus and rollout.gpusPerEngine must both be 0 (CPU) or both be positive",
            ".rollout.gpusPerEngine",
        ),
        Rule(
            "!self.trainer.offload || self.trainer.gpus == 0 || self.model.dtype == 'bfloat16'",
            "trainer.offload on GPUs needs model.dtype bfloat16: Megatron keeps no state of fp32 weights on the host",
            ".trainer.offload",
        ),
        Rule(
            "!self.colocate || self.rollout.engines * self.rollout.gpusPerEngine"
            " == self.trainer.replicas * self.trainer.gpus",
            "with colocate, rollout.engines * rollout.gpusPerEngine must equal trainer.replicas * trainer.gpus",
            ".rollout.engines",
        ),
        Rule(
            "!self.colocate || self.rollout.gpusPerEngine == 0 || self.trainer.gpus % self.rollout.gpusPerEngine == 0",
            "with colocate, rollout.gpusPerEngine must divide trainer.gpus: an engine lives in one Pod",
            ".rollout.gpusPerEngine",
        ),
        Rule(
            "!self.colocate || self.rollout.gpusPerEngine != 0 || self.rollout.engines % self.trainer.replicas == 0",
            "with colocate on CPU, trainer.replicas must divide rollout.engines",
            ".rollout.engines",
        ),
        Rule(
            "!self.colocate || !has(self.model.lora) || self.model.lora.update == 'merged'",
            "with colocate, model.lora.update must be merged: engines that wake up need all weights",
            ".model.lora.update",
        ),
        Rule(
            "!self.rollout.keepCache || (self.algorithm.partialRollouts && !self.colocate && !has(self.model.lora))",
            "rollout.keepCache needs algorithm.partialRollouts, and neither colocate nor model.lora",
            ".rollout.keepCache",
        ),
        Rule(
            "self.rollout.weightUpdate == 'direct' || !self.colocate",
            "rollout.weightUpdate must be direct with colocate: engines read the trainer's memory",
            ".rollout.weightUpdate",
        ),
        Rule(
            "self.rollout.weightUpdate == 'direct' || !has(self.model.lora) || self.model.lora.update == 'merged'",
            "rollout.weightUpdate must be direct with model.lora.update adapter, which uses the volume already",
            ".rollout.weightUpdate",
        ),
        Rule(
            "self.algorithm.groupSize <= self.sandbox.maxConcurrent",
            "algorithm.groupSize must not exceed sandbox.maxConcurrent: a group is admitted whole",
            ".sandbox.maxConcurrent",
        ),
        *SANDBOX_RULES,
    )


class SandboxCounts(StatusModel):
    """Sandbox Pods of the running attempt."""

    pending: int = 0
    """Sandboxes declared but not yet ready."""
    ready: int = 0
    """Sandboxes ready or in use."""
    summary: str = ""
    """`pending/ready`, for the printer column; filled from the two counts."""

    @model_validator(mode="after")
    def _fill_summary(self) -> SandboxCounts:
        self.summary = self.summary or f"{self.pending}/{self.ready}"
        return self


class HeldOutRates(StatusModel):
    """Resolved rates of the held-out tasks."""

    before: float | None = None
    """Rate before the first training step, 0 to 1."""
    after: float | None = None
    """Rate after the last training step, 0 to 1."""


class GradingCounts(StatusModel):
    """Grading Jobs of the running attempt."""

    pending: int = 0
    """Patches that wait for a verdict."""


class JobProgress(StatusModel):
    """The part of the status that the driver of the current attempt writes, as one merge patch."""

    step: int | None = None
    """Training steps done."""
    steps: int | None = None
    """Training steps of the whole job."""
    progress: str | None = None
    """`step/steps`, for the printer column; filled from the two numbers."""
    eta_seconds: int | None = None
    """Seconds until the last step at the present pace."""
    eta: str | None = None
    """etaSeconds in words (1h05m, 12m, 40s), for the printer column; filled from it."""
    reward_mean: float | None = None
    """Mean reward of the last step's valid episodes."""
    resolved_rate: float | None = None
    """Share of the last step's valid episodes whose patch passed, 0 to 1."""
    tokens_per_second: float | None = None
    """Trained tokens per second of the last step."""
    last_checkpoint: str | None = None
    """Path, on the checkpoint volume, of the newest complete checkpoint."""
    steps_without_signal: int | None = None
    """Steps in a row, up to the last one, that changed no weight."""
    held_out: HeldOutRates | None = None
    """Held-out resolved rates."""
    grading: GradingCounts | None = None
    """Grading Jobs."""
    sandboxes: SandboxCounts | None = None
    """Sandbox Pods."""

    @model_validator(mode="after")
    def _fill_columns(self) -> JobProgress:
        if self.progress is None and self.step is not None and self.steps is not None:
            self.progress = f"{self.step}/{self.steps}"
        if self.eta is None and self.eta_seconds is not None:
            self.eta = duration_words(self.eta_seconds)
        return self


class SweRLJobStatus(JobProgress):
    """Observed state. The operator writes the fields below, the driver those of JobProgress."""

    phase: JobPhase | None = None
    """Summary for the printer column; the conditions give the reasons."""
    reason: str | None = Field(default=None, max_length=128)
    """Why the phase is Blocked: reason of the condition that says more. Absent in other phases."""
    conditions: list[Condition] = Field(default_factory=list)
    """Validated, CapacityMatched, ImagesReady, ClusterReady, Training, Learning, Complete, Failed, Suspended."""
    observed_generation: int | None = None
    """metadata.generation that this status describes."""
    attempt: int | None = None
    """Number of the current attempt, from 1."""
    ray_cluster: str | None = None
    """Name of the current attempt's RayCluster; absent when there is none."""
    failures: int | None = None
    """Attempts that failed; suspending does not count."""
    start_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the first attempt started."""
    attempt_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the current attempt started."""
    completion_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the job became Complete or Failed."""
    submission: str | None = None
    """Ray Jobs submission id of the current attempt's driver, once accepted."""


def duration_words(seconds: int) -> str:
    """`seconds` in short form: 40s, 12m, 1h05m."""
    if seconds < 60:
        return f"{max(0, seconds)}s"
    if seconds < 3600:
        return f"{round(seconds / 60)}m"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
