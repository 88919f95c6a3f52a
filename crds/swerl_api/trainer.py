"""The Megatron ranks and their parallel layout."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import Positive, Resources, Rule
from .pod_template import RayPodTemplate
from .pods import RayPods

Parallel = Annotated[int, Field(ge=1, le=4096)]


class TrainerSpec(RayPods):
    """The Megatron ranks. World size = replicas * gpus, or replicas * cpuRanks on CPU."""

    replicas: Parallel = 1
    """Trainer Pods."""
    gpus: int = Field(default=0, ge=0, le=64)
    """GPUs (and ranks) per trainer Pod; 0 trains on CPU."""
    cpu_ranks: int = Field(default=1, ge=1, le=64)
    """Ranks per trainer Pod on CPU, which share its CPUs and memory evenly. With GPUs each of them has one rank."""
    tensor_parallel: Parallel = 1
    """Ranks that share each layer's matrices."""
    pipeline_parallel: Parallel = 1
    """Stages the layers are divided into."""
    virtual_pipeline: Parallel = 1
    """Chunks of layers on each pipeline stage. Above 1 the stages are interleaved, which shortens their idle time."""
    context_parallel: Parallel = 1
    """Ranks that share one sequence."""
    expert_parallel: Parallel = 1
    """Ranks that share the experts of a mixture-of-experts model."""
    max_tokens_per_gpu: Positive = 8192
    """Tokens packed into one micro-batch of one rank."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations recomputed in the backward pass, to save memory for time."""
    offload: bool = False
    """Keep optimizer state in host memory. On GPUs it needs model.dtype bfloat16; on CPU it changes nothing."""
    collective_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """Seconds that ranks wait for one another before the attempt ends. After half of it the stacks of all ranks are
    written to the job's folder."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of one trainer Pod besides its GPUs, which are added."""
    pod_template: RayPodTemplate | None = None
    """What is added to trainer Pods; absent means nothing."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        *RayPods.cel_rules,
        Rule(
            "self.gpus == 0 || self.cpuRanks == 1",
            "cpuRanks above 1 is for training on CPU: with gpus each GPU has one rank",
            ".cpuRanks",
        ),
        Rule(
            "(self.replicas * (self.gpus > 0 ? self.gpus : self.cpuRanks))"
            " % (self.tensorParallel * self.pipelineParallel * self.contextParallel) == 0",
            "tensorParallel * pipelineParallel * contextParallel must divide the trainer ranks"
            " (replicas * gpus; replicas * cpuRanks on CPU)",
            ".tensorParallel",
        ),
        Rule(
            "(self.replicas * (self.gpus > 0 ? self.gpus : self.cpuRanks))"
            " % (self.expertParallel * self.pipelineParallel) == 0",
            "expertParallel * pipelineParallel must divide the trainer ranks"
            " (replicas * gpus; replicas * cpuRanks on CPU)",
            ".expertParallel",
        ),
        Rule(
            "self.virtualPipeline == 1 || self.pipelineParallel > 1",
            "virtualPipeline above 1 needs pipelineParallel above 1",
            ".virtualPipeline",
        ),
    )

    @property
    def ranks_per_pod(self) -> int:
        """Ranks of one trainer Pod."""
        return self.gpus or self.cpu_ranks

    @property
    def ranks(self) -> int:
        """All training ranks."""
        return self.replicas * self.ranks_per_pod
