"""What a training rank is built from. Pure data: no torch, no Ray, no Megatron."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from swerl_api import AlgorithmSpec, LoraSpec, SweRLJobSpec, TrainerSpec
from swerl_kube.logs import LogSettings
from swerl_trainer.megatron.errors import LayoutError


@dataclass(frozen=True)
class RankConfig:
    """The model's folder, and the parts of the job's spec that a training rank reads."""

    model: str  # folder with config.json and *.safetensors in Hugging Face format
    dtype: Literal["float32", "bfloat16"]
    trainer: TrainerSpec
    algorithm: AlgorithmSpec
    lora: LoraSpec | None = None  # None trains all weights
    logs: str = ""  # folder of the ranks' logs and of stacks of calls that do not end; "": neither is written
    log: LogSettings = field(default_factory=LogSettings)

    @classmethod
    def of(cls, spec: SweRLJobSpec, model: str, logs: str = "", log: LogSettings | None = None) -> RankConfig:
        """The configuration of a job whose model lies in the folder `model`."""
        return cls(model, spec.model.dtype, spec.trainer, spec.algorithm, spec.model.lora, logs, log or LogSettings())

    def log_of(self, rank: int) -> LogSettings:
        """How the process of this rank logs."""
        return replace(self.log, ids={**self.log.ids, "rank": rank})

    @property
    def communication_timeout(self) -> float:
        """Seconds a collective may take before the rank gives up."""
        return float(self.trainer.collective_timeout_seconds)

    @property
    def watchdog_seconds(self) -> float:
        """Seconds after which a call that has not ended is reported: while its collectives still wait."""
        return self.communication_timeout / 2


def initial_lr(algorithm: AlgorithmSpec) -> float:
    """Learning rate of the first step; supervised steps come first."""
    return algorithm.sft.lr if algorithm.sft else algorithm.lr


def data_parallel_size(trainer: TrainerSpec, world_size: int) -> int:
    """Data-parallel size among `world_size` ranks. Raises LayoutError when it is no whole number."""
    tensor, pipeline, context = trainer.tensor_parallel, trainer.pipeline_parallel, trainer.context_parallel
    model = tensor * pipeline * context
    if world_size % model:
        raise LayoutError(
            f"{world_size} training ranks cannot hold tensor {tensor} x pipeline {pipeline} x context {context}: make "
            f"trainer.replicas x {'gpus' if trainer.gpus else 'cpuRanks'} a multiple of {model}"
        )
    return world_size // model
