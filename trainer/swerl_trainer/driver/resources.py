"""Training ranks, GPUs and engine servers that follow from a job's spec. Pure."""

from __future__ import annotations

from swerl_api import JudgeSpec, SweRLJobSpec
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.job import Job


def training_ranks(spec: SweRLJobSpec) -> tuple[int, float]:
    """Number of training ranks, and whole GPUs of each: Ray packs fractions of two ranks into one GPU.

    Engines that share the GPUs request none from Ray.
    """
    return spec.trainer.ranks, 1.0 if spec.trainer.gpus else 0.0


def shares_gpus(spec: SweRLJobSpec) -> bool:
    """Whether engines and training ranks use the same GPUs, one after the other."""
    return spec.colocate and spec.rollout.gpus_per_engine > 0


def engine_server(job: Job) -> ServerSettings:
    """The server of each engine of the policy."""
    spec = job.spec
    return ServerSettings(
        model=str(job.paths.model),
        tokenizer=spec.model.tokenizer,
        dtype=spec.model.dtype,
        gpus=spec.rollout.gpus_per_engine,
        context_tokens=spec.agent.context_tokens,
        share_gpu=shares_gpus(spec),
        seed=spec.algorithm.seed,
        lora=job.engine_adapter,
        arguments=spec.rollout.engine_args,
        log=job.log,
    )


def judge_server(job: Job, judge: JudgeSpec) -> ServerSettings:
    """The server of each engine of the judge, in the number format that the judge's model folder names."""
    return ServerSettings(
        model=str(job.paths.judge),
        dtype="auto",
        gpus=judge.gpus_per_engine,
        context_tokens=judge.context_tokens,
        log=job.log,
    )
