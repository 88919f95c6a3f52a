"""SweEval: how many tasks a model solves, as one object; the configuration and progress of its processes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from . import names
from .agent import AgentSpec
from .base import (
    ApiModel,
    Fraction,
    LogFormat,
    Name,
    NonNegative,
    Positive,
    RelativePath,
    Resources,
    Rule,
    StatusModel,
    Text,
    format_validation_error,
    immutable,
)
from .conditions import Condition
from .endpoint import EndpointSpec
from .engines import ServedEngines
from .grading import GradingSpec
from .pods import PodSettings
from .sandbox import SANDBOX_RULES, SandboxSpec
from .source import SourceSpec
from .tasks import TaskSelection
from .volumes import OutputVolume

EvalPhase = Literal["Pending", "Blocked", "Starting", "Running", "Merging", "Suspended", "Complete", "Failed"]
_IN_TOKENS = "!has(self.model.endpoint) || self.model.endpoint.api == 'generate'"
MAX_EVAL_NAME = 40  # leaves room for `-engines` and for what KubeRay and Kubernetes append
_NO_DOWNLOAD = "huggingFace is not downloaded for an evaluation: put it on a volume or into an image"


class TrainedModel(ApiModel):
    """The weights of a SweRLJob's checkpoint."""

    name: Name
    """SweRLJob in the same namespace; it must exist until the engines serve."""
    step: NonNegative | None = None
    """Training step of the checkpoint; absent means the newest complete one when the evaluation starts."""


class EvaluatedModel(ApiModel):
    """What is evaluated: exactly one of endpoint, source, job."""

    endpoint: EndpointSpec | None = None
    """A running server; nothing is started."""
    source: SourceSpec | None = None
    """Folder in Hugging Face format; engines for it are started on Ray."""
    job: TrainedModel | None = None
    """Checkpoint of a SweRLJob; engines for it are started on Ray."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format of the engines for `source`; those for `job` have the job's, an endpoint its own."""
    name: Text | None = None
    """Name of the model in predictions and summary; absent means the evaluation's name."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.endpoint), has(self.source), has(self.job)].filter(given, given).size() == 1",
            "give exactly one of model.endpoint, model.source, model.job",
        ),
        Rule("!has(self.source) || !has(self.source.huggingFace)", _NO_DOWNLOAD, ".source"),
        Rule(
            "!has(self.endpoint) || !has(self.endpoint.tokenizer) || !has(self.endpoint.tokenizer.huggingFace)",
            _NO_DOWNLOAD,
            ".endpoint",
        ),
    )


class EvaluatedTasks(TaskSelection):
    """The tasks that are sampled: filtered, shuffled, sliced, in this order."""

    shuffle: bool = False
    """Shuffle the tasks with `seed` before they are sliced and divided among shards."""
    seed: NonNegative = 42
    """Seed of the shuffle."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (Rule("!has(self.source.huggingFace)", _NO_DOWNLOAD, ".source"),)


class ResultsSpec(ApiModel):
    """Where results are kept."""

    volume: OutputVolume
    """The volume; it must be reachable from every Pod of the evaluation."""
    path: RelativePath = ""
    """Folder inside the volume. Results go to its subfolder with the evaluation's name; a SweRLJob that writes there
    must have another name."""


class SampleSpec(ApiModel):
    """How many samples a task has, and how they are run."""

    samples: Annotated[int, Field(ge=1, le=1024)] = Field(default=1, json_schema_extra=immutable("samples"))
    """Samples per task."""
    temperature: float = Field(default=0.0, ge=0, le=10, json_schema_extra=immutable("temperature"))
    """Sampling temperature; 0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1, json_schema_extra=immutable("topP"))
    """Probability mass to sample from (nucleus sampling)."""
    top_k: NonNegative = Field(default=0, json_schema_extra=immutable("topK"))
    """Number of most likely tokens to sample from; 0 means all."""
    workers: Annotated[int, Field(ge=1, le=1024)] = 4
    """Samples that one shard runs at the same time."""


class SweEvalSpec(SampleSpec, PodSettings):
    """Desired state. A changed field that describes Pods applies to Pods created later, e.g. after `suspend`."""

    model: EvaluatedModel = Field(json_schema_extra=immutable("model"))
    """The model that is evaluated."""
    tasks: EvaluatedTasks = Field(json_schema_extra=immutable("tasks"))
    """The tasks it samples."""
    agent: AgentSpec = Field(default_factory=AgentSpec, json_schema_extra=immutable("agent"))
    """Kind, limits and prompts of the agent."""
    sandbox: SandboxSpec = Field(default_factory=SandboxSpec)
    """The Pods in which samples run commands; maxConcurrent applies to all shards together."""
    grading: GradingSpec = Field(default_factory=GradingSpec)
    """The Jobs that grade patches; maxConcurrent applies to each shard."""
    shards: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, json_schema_extra=immutable("shards"))
    """Equal parts of the tasks; each is one index of an Indexed Job."""
    parallelism: Positive | None = None
    """Shards that run at the same time; absent means all."""
    redo: Literal["unresolved", "all"] | None = Field(default=None, json_schema_extra=immutable("redo"))
    """Repeat these samples, once, of those that an earlier evaluation of this name left in the output folder."""
    output: ResultsSpec = Field(json_schema_extra=immutable("output"))
    """Where results are kept."""
    rollout: ServedEngines | None = None
    """Engines for a model that has no endpoint."""
    image: Annotated[str, Field(min_length=1, max_length=512)]
    """Image of the shards' Pods: one that holds swerl_agent, such as the trainer's."""
    resources: Resources = Field(default_factory=lambda: Resources(requests={"cpu": "500m", "memory": "1Gi"}))
    """Resources of one shard's Pod."""
    retries: int = Field(default=3, ge=0, le=100)
    """Retries of a shard whose Pod failed, and of lost engines; lost nodes do not count."""
    suspend: bool = False
    """True stops shards and engines and keeps the results; false again continues with the remaining samples."""
    log_format: LogFormat = "text"
    """Log lines of shards and of the engines' process: text, or JSON objects with evaluation, shard and episode."""
    active_deadline_seconds: Annotated[int, Field(ge=1)] | None = None
    """Seconds from the start after which the evaluation fails; its results stay. Absent means never."""
    ttl_seconds_after_finished: NonNegative | None = None
    """Seconds after which a finished SweEval is deleted; its results stay. Absent means never."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.rollout) != has(self.model.endpoint)",
            "rollout must be given when the model has no endpoint, and only then",
            ".rollout",
        ),
        Rule(
            f"{_IN_TOKENS} || self.agent.kind != 'builtin' || self.agent.protocol != 'mini-swe-agent-2-tools'",
            "with model.endpoint.api chat-completions, tool calls need agent.kind mini-swe-agent; the builtin "
            "agent uses the protocols with blocks",
            ".agent.protocol",
        ),
        Rule(
            f"{_IN_TOKENS} || !has(self.agent.chatTemplate)",
            "agent.chatTemplate has no effect with model.endpoint.api chat-completions: the server applies its own",
            ".agent.chatTemplate",
        ),
        Rule("has(self.redo) == has(oldSelf.redo)", "redo cannot be added or removed", ".redo"),
        *SANDBOX_RULES,
    )


class EvalProgress(StatusModel):
    """How far an evaluation, or one shard of it, is."""

    total: int | None = None
    """Samples of the whole evaluation: tasks times `samples`."""
    done: int | None = None
    """Samples with a result."""
    resolved: int | None = None
    """Samples whose patch passed."""
    errors: int | None = None
    """Samples without a result. Those that infrastructure ended are retried; those whose prompt does not render are
    not."""
    rate: Fraction | None = None
    """Share of resolved samples among those with a result; at the end the mean over tasks, 0 to 1."""
    pass_at_k: Annotated[dict[str, float], Field(max_length=16)] | None = None
    """At the end: probability that one of k samples of a task is resolved (Chen et al. 2021, eq. 1), by k."""
    progress: str | None = None
    """`done/total`, for the printer column; filled from the two numbers."""

    @model_validator(mode="after")
    def _fill_progress(self) -> EvalProgress:
        if self.done is not None and self.total is not None:
            self.progress = f"{self.done}/{self.total}"
        return self


class SweEvalStatus(EvalProgress):
    """Observed state, written by the operator."""

    phase: EvalPhase | None = None
    """Summary for the printer column; the conditions give the reasons."""
    reason: str | None = Field(default=None, max_length=128)
    """Why the phase is Blocked: reason of the condition that says more. Absent in other phases."""
    conditions: list[Condition] = Field(default_factory=list)
    """Validated, CapacityMatched, ImagesReady, ModelReady, Running, Complete, Failed, Suspended."""
    observed_generation: int | None = None
    """metadata.generation that this status describes."""
    shards_done: int | None = None
    """Shards that succeeded."""
    checkpoint: str | None = None
    """Path of the evaluated checkpoint on the volume of its SweRLJob; chosen once."""
    submission: str | None = None
    """Ray Jobs submission id of the process that runs the engines, once accepted."""
    failures: int | None = None
    """Times the engines were lost."""
    start_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the operator first worked on it."""
    completion_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When it became Complete or Failed."""


class EvaluationFile(ApiModel):
    """Configuration of an evaluation's processes, as a file (names.EVALUATION_FILE)."""

    name: str
    """Of the SweEval."""
    namespace: str
    """Of the SweEval."""
    uid: str
    """Of the SweEval."""
    engine: str
    """Address of the server or router."""
    tokenizer: str | None = None
    """Folder of the tokenizer in the Pods; absent for an endpoint that receives messages, not tokens."""
    dtype: Literal["float32", "bfloat16"]
    """Number format of engines that are started."""
    checkpoint: str | None = None
    """Checkpoint whose weights are served, below names.CHECKPOINTS_PATH; absent: those of the model's folder."""
    spec: SweEvalSpec
    """All the rest."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The evaluation that the file describes; raises ValueError naming file and fields."""
        try:
            return cls.model_validate_json(path.read_text())
        except (OSError, ValidationError) as error:
            problem = format_validation_error(error) if isinstance(error, ValidationError) else error
            raise ValueError(f"{path} describes no evaluation: {problem}") from error

    @property
    def model(self) -> str:
        """Name of the model in predictions and summary."""
        return self.spec.model.name or self.name

    @property
    def chat_endpoint(self) -> EndpointSpec | None:
        """The endpoint if it receives messages, not tokens."""
        endpoint = self.spec.model.endpoint
        return endpoint if endpoint and endpoint.api == "chat-completions" else None

    @property
    def folder(self) -> PurePosixPath:
        """Folder of the results, relative to names.OUTPUT_PATH."""
        return PurePosixPath(self.spec.output.path) / self.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything a process of the evaluation makes."""
        return {names.JOB_LABEL: names.evaluation_scope(self.name), names.EVALUATION_LABEL: self.name}
