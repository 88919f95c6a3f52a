"""The engines of an evaluation, which has no training ranks. Pure."""

from __future__ import annotations

from swerl_api import SweEvalSpec

from .engine import EngineSettings, engine_memory, engine_problems
from .job import Machines
from .memory import BYTES_PER_WEIGHT
from .shape import ModelShape
from .text import engines_text


def evaluation_plan(spec: SweEvalSpec, shape: ModelShape, machines: Machines) -> tuple[str, tuple[str, ...]]:
    """The plan of the engines of `spec` in lines, and why they cannot serve a model of `shape`.

    Raises ValueError when the evaluation uses the engines of an endpoint.
    """
    if spec.rollout is None:
        raise ValueError("the evaluation starts no engines: model.endpoint has them")
    engine = EngineSettings(
        field="rollout.gpusPerEngine",
        gpus=spec.rollout.gpus_per_engine,
        context=spec.agent.context_tokens,
        bytes_per_weight=BYTES_PER_WEIGHT[spec.model.dtype],
        shares_gpu=False,
        arguments=spec.rollout.engine_args,
    )
    memory = engine_memory(shape, engine, machines.gpu_memory)
    text = engines_text(shape, spec.rollout.engines, engine.gpus, memory)
    return text, tuple(engine_problems(shape, engine, machines.gpu_memory))
