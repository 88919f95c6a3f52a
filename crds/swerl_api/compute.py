"""What the job runs on: trainer ranks, inference engines, checkpoints."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import (
    QUANTITY,
    AbsolutePath,
    ApiModel,
    ImageReference,
    KubernetesObject,
    Name,
    NodeSelector,
    Positive,
    PullSecrets,
    Resources,
    Rule,
    Text,
    TextMap,
    Tolerations,
    immutable,
)

Parallel = Annotated[int, Field(ge=1, le=4096)]
EngineArguments = KubernetesObject


class PodSettings(ApiModel):
    """What Pods of the same kind share."""

    image: ImageReference
    """Image of these Pods."""
    pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets for `image`."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that may run these Pods."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints that these Pods tolerate."""
    env: TextMap = Field(default_factory=dict)
    """Environment of their containers, by name."""
    env_from_secrets: PullSecrets = Field(default_factory=list)
    """Names of Secrets whose keys become environment of their containers, e.g. HF_TOKEN or WANDB_API_KEY."""


class RayPods(PodSettings):
    """What all Pods of a Ray cluster share."""

    image: ImageReference
    """Image of every Ray Pod: driver, trainer ranks, engines."""
    head_resources: Resources = Field(default_factory=Resources)
    """Resources of the head Pod, which runs the driver, the router and, in training, the rollout workers."""
    shared_memory: Annotated[str, Field(max_length=32, pattern=QUANTITY)] = "2Gi"
    """Size of /dev/shm in every Ray Pod (a quantity); it counts against the Pod's memory."""


class Trainer(RayPods):
    """The Megatron ranks. World size = replicas * max(1, gpus)."""

    replicas: Parallel = 1
    """Trainer Pods."""
    gpus: int = Field(default=0, ge=0, le=64)
    """GPUs (and ranks) per trainer Pod; 0 trains on CPU with one rank per Pod."""
    tensor_parallel: Parallel = 1
    """Ranks that share each layer's matrices."""
    pipeline_parallel: Parallel = 1
    """Stages the layers are divided into."""
    context_parallel: Parallel = 1
    """Ranks that share one sequence."""
    expert_parallel: Parallel = 1
    """Ranks that share the experts of a mixture-of-experts model."""
    max_tokens_per_gpu: Positive = 8192
    """Tokens packed into one micro-batch of one rank."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations recomputed in the backward pass, to save memory for time."""
    offload: bool = False
    """Keep optimizer state in host memory; on GPUs it needs Transformer Engine in the image."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of one trainer Pod besides its GPUs, which are added."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.replicas * (self.gpus > 0 ? self.gpus : 1))"
            " % (self.tensorParallel * self.pipelineParallel * self.contextParallel) == 0",
            "tensorParallel * pipelineParallel * contextParallel must divide the trainer ranks"
            " (replicas * gpus; replicas on CPU)",
            ".tensorParallel",
        ),
        Rule(
            "(self.replicas * (self.gpus > 0 ? self.gpus : 1)) % (self.expertParallel * self.pipelineParallel) == 0",
            "expertParallel * pipelineParallel must divide the trainer ranks (replicas * gpus; replicas on CPU)",
            ".expertParallel",
        ),
    )


class Router(ApiModel):
    """The router in front of the engines."""

    policy: Literal["consistent_hashing", "cache_aware", "round_robin", "power_of_two", "random"] = "consistent_hashing"
    """How requests are spread; consistent_hashing keeps an episode on the engine that holds its prefix."""
    args: TextMap = Field(default_factory=dict)
    """Further command-line arguments of the router, by name without dashes."""


class Engines(ApiModel):
    """The inference engines and the router in front of them."""

    engines: Annotated[int, Field(ge=1, le=1024)] = 1
    """SGLang engines."""
    gpus_per_engine: int = Field(default=0, ge=0, le=64)
    """GPUs of one engine (its tensor parallelism); 0 runs it on CPU."""
    engine_args: EngineArguments = Field(default_factory=dict)
    """Further server arguments of every engine, by name without dashes, e.g. `mem-fraction-static: 0.6`."""
    router: Router = Field(default_factory=Router)
    """Router settings."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of one engine Pod besides its GPUs, which are added."""


class Rollout(Engines):
    """The inference engines and the workers that drive episodes; colocated engines have no Pods of their own."""

    workers: Positive = 1
    """Rollout worker processes on the head Pod; each drives many episodes."""


class ServedRollout(Engines, RayPods):
    """Engines for weights that do not change, in a Ray cluster of their own."""


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim, read and written by every Ray Pod (ReadWriteMany, or one node)."""

    claim_name: Name
    """PersistentVolumeClaim in the job's namespace."""


class HostPathVolume(ApiModel):
    """A folder of the node, for clusters of one node."""

    path: AbsolutePath
    """Absolute path on the node."""
    type: Literal["", "Directory", "DirectoryOrCreate"] = "DirectoryOrCreate"
    """What must exist there."""


class NfsVolume(ApiModel):
    """An NFS export."""

    server: Text
    """Host name or address."""
    path: AbsolutePath
    """Exported path."""


class CsiVolume(ApiModel):
    """An inline volume of a CSI driver."""

    driver: Text
    """Name of the driver."""
    volume_attributes: TextMap = Field(default_factory=dict)
    """What the driver needs to know."""


class OutputVolume(ApiModel):
    """Exactly one Kubernetes volume source."""

    persistent_volume_claim: ClaimVolume | None = None
    """A PersistentVolumeClaim."""
    host_path: HostPathVolume | None = None
    """A folder of the node."""
    nfs: NfsVolume | None = None
    """An NFS export."""
    csi: CsiVolume | None = None
    """An inline CSI volume."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.persistentVolumeClaim), has(self.hostPath), has(self.nfs), has(self.csi)]"
            ".filter(given, given).size() == 1",
            "give exactly one of persistentVolumeClaim, hostPath, nfs, csi",
        ),
    )


class Checkpoint(ApiModel):
    """What survives a lost attempt."""

    volume: OutputVolume = Field(json_schema_extra=immutable("checkpoint.volume"))
    """Where all that the job writes goes, into a folder of its own with the job's name: checkpoints, figures, episode
    artifacts, logs. Jobs may share a volume; it must be reachable from every Ray Pod."""
    every: Positive = 10
    """Training steps between two checkpoints; the last step always makes one."""
    keep_last: Positive = 2
    """Complete checkpoints kept; older ones are removed."""
    resume: Literal["auto", "never"] = "auto"
    """auto: an attempt starts from the newest complete checkpoint of this object's earlier attempts, if there is one;
    never: from the model. A job that was deleted and made anew starts from its model, too: its driver first sets the
    old job's folder aside as `<name>.<first 8 characters of the old uid>`."""
