"""From the job's spec to the settings of each part. Pure; the one place where the CRD's names meet the code's."""

from __future__ import annotations

from swerl_api import JudgeSpec, SweRLJobSpec
from swerl_trainer.algorithm.settings import Correction, LossSettings
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.job import Job
from swerl_trainer.megatron.settings import Layout, Optimizer, TrainerSettings
from swerl_trainer.rollout.dispatcher import DispatchSettings


def loss_settings(spec: SweRLJobSpec) -> LossSettings:
    """The learning rule."""
    algorithm = spec.algorithm
    correction = algorithm.correction
    return LossSettings(
        objective=algorithm.name,
        clip_low=algorithm.clip_low,
        clip_high=algorithm.clip_high,
        aggregation=algorithm.loss_aggregation,
        kl_coef=algorithm.kl_coef,
        entropy_coef=algorithm.entropy_coef,
        temperature=algorithm.temperature if algorithm.name != "sft" else 1.0,
        correction=Correction(correction.mode, correction.level, correction.low, correction.high),
    )


def trainer_settings(job: Job, model: str) -> TrainerSettings:
    """The training ranks; `model` is the model's folder."""
    spec = job.spec
    algorithm, trainer = spec.algorithm, spec.trainer
    supervised = algorithm.sft
    return TrainerSettings(
        model=model,
        dtype=spec.model.dtype,
        layout=Layout(
            tensor=trainer.tensor_parallel,
            pipeline=trainer.pipeline_parallel,
            context=trainer.context_parallel,
            expert=trainer.expert_parallel,
        ),
        optimizer=Optimizer(
            lr=supervised.lr if supervised else algorithm.lr,
            weight_decay=algorithm.weight_decay,
            max_grad_norm=algorithm.max_grad_norm,
        ),
        loss=loss_settings(spec),
        minibatches=algorithm.minibatches,
        max_tokens_per_rank=trainer.max_tokens_per_gpu,
        recompute=trainer.recompute,
        offload=trainer.offload,
        seed=algorithm.seed,
    )


def ranks(spec: SweRLJobSpec) -> tuple[int, float]:
    """Number of training ranks and GPUs of each: whole ones, because Ray packs fractions of two ranks into one GPU.
    Engines that share them ask Ray for none."""
    gpus = spec.trainer.gpus
    return spec.trainer.replicas * max(1, gpus), 1.0 if gpus else 0.0


def shares_gpus(spec: SweRLJobSpec) -> bool:
    """Whether engines and training ranks use the same GPUs in turn."""
    return spec.colocate and spec.rollout.gpus_per_engine > 0


def server_settings(job: Job, model: str) -> ServerSettings:
    """The engines."""
    spec = job.spec
    return ServerSettings(
        model=model,
        tokenizer=spec.model.tokenizer,
        dtype=spec.model.dtype,
        gpus=spec.rollout.gpus_per_engine,
        context_tokens=spec.agent.context_tokens,
        share_gpu=shares_gpus(spec),
        seed=spec.algorithm.seed,
        arguments=spec.rollout.engine_args,
    )


def judge_settings(judge: JudgeSpec, model: str) -> ServerSettings:
    """The judge's engines, in the number format the model's folder names."""
    return ServerSettings(model=model, dtype="auto", gpus=judge.gpus_per_engine, context_tokens=judge.context_tokens)


def dispatch_settings(spec: SweRLJobSpec) -> DispatchSettings:
    """The order of rollouts."""
    algorithm = spec.algorithm
    return DispatchSettings(
        steps=algorithm.steps,
        prompts_per_step=algorithm.prompts_per_step,
        group_size=algorithm.group_size,
        oversampling=algorithm.oversampling,
        dynamic_filter=algorithm.dynamic_filter,
        max_staleness=algorithm.max_staleness,
        partial_rollouts=algorithm.partial_rollouts,
        prefetch=spec.sandbox.prefetch,
        max_concurrent=spec.sandbox.max_concurrent,
        temperature=algorithm.temperature,
    )
