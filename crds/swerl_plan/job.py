"""The plan of a job: what each rank and each engine needs, and why the job cannot run if it cannot.

Guarantees: pure; a problem is certain (a division that has a remainder, a limit that is exceeded), a warning is what
only the nodes decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

from swerl_api import AlgorithmSpec, JudgeSpec, Resources, SweRLJobSpec
from swerl_api.quantity import parse_quantity

from .engine import RELEASED_ENGINE_BYTES, EngineMemory, EngineSettings, engine_memory, engine_problems
from .layout import Layout, division_problems
from .memory import BYTES_PER_WEIGHT, GIB, PHASES, Memory, Phase, TrainingSettings, rank_memory
from .shape import ModelShape
from .traffic import StepWork, Traffic, step_traffic

RAY_PROCESSES = GIB // 2  # of one Pod
Role = Literal["engine", "judge"]


@dataclass(frozen=True)
class Machines:
    """What is known of the nodes; None: not known."""

    gpu_memory: int | None = None  # bytes of one GPU
    host_memory: int | None = None  # allocatable bytes of the largest node


@dataclass(frozen=True)
class JobPlan:
    """Memory and traffic of a job in its layout; without problems it can run."""

    layout: Layout
    settings: TrainingSettings
    ranks: Mapping[Phase, Memory]  # of the rank that needs most, engines on the same GPU included
    pods: Mapping[Phase, int]  # host bytes of a trainer Pod
    engine: EngineMemory | None  # None: the job has none
    judge: EngineMemory | None  # None: the job has none, or its model is not known
    engine_pods: Mapping[Role, int]  # host bytes of a Pod, of engines that have Pods of their own
    traffic: Traffic
    host_budget: int | None  # bytes that a trainer Pod can have, or requests; None: not known
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def gpu_peak(self) -> int:
        """Bytes on a rank's GPU in the phase that needs most."""
        return max(memory.gpu_bytes for memory in self.ranks.values())

    @property
    def host_peak(self) -> int:
        """Host bytes of a trainer Pod in the phase that needs most."""
        return max(self.pods.values())


def plan_job(
    spec: SweRLJobSpec, shape: ModelShape, machines: Machines, judge: ModelShape | None = None
) -> JobPlan | None:
    """The plan of `spec` for a model of `shape`; None when it cannot even be divided over the ranks."""
    layout, settings, engine = Layout.of(spec.trainer), training_settings(spec), policy_engine(spec)
    if any(division_problems(shape, layout)):
        return None
    served = engine_memory(shape, engine, machines.gpu_memory) if serves(spec) else None
    judged = engine_memory(judge, judge_engine(spec.judge), machines.gpu_memory) if spec.judge and judge else None
    phases = rank_memory(shape, layout, settings)
    if served is None:
        phases = {phase: memory for phase, memory in phases.items() if phase != "update"}
    ranks = _with_engine(phases, engine, served, machines)
    beside = served.host * (spec.rollout.engines // layout.pods) if served and spec.colocate else 0
    pods = {p: layout.ranks_per_pod * m.host_bytes + beside + RAY_PROCESSES for p, m in ranks.items()}
    problems = [*job_problems(spec, shape, machines, judge), *_gpu_problems(ranks, machines)]
    limit, requested = _memory_limit(spec.trainer.resources, machines), _memory_request(spec.trainer.resources)
    engine_pods = _engine_pods(spec, served, judged)
    warnings = [*_engine_warnings(spec, engine_pods, machines)]
    if limit is not None and max(pods.values()) > limit:
        problems.append(_host_text(pods, limit, "limit or node has"))
    elif requested is not None and max(pods.values()) > requested:
        warnings.append(_host_text(pods, requested, "request is"))
    for axis in ("tensor", "expert"):
        if layout.gpus and layout.crosses_pods(axis):
            warnings.append(f"a {axis} group spans several Pods, whose network is slower than one node's links")
    traffic = step_traffic(shape, layout, settings, step_work(spec))
    budget = limit if requested is None else requested if limit is None else min(limit, requested)
    return JobPlan(
        layout,
        settings,
        ranks,
        pods,
        served,
        judged,
        engine_pods,
        traffic,
        budget,
        tuple(problems),
        tuple(warnings),
    )


def job_problems(
    spec: SweRLJobSpec, shape: ModelShape, machines: Machines, judge: ModelShape | None = None
) -> Iterator[str]:
    """What divisions, contexts and caches refuse, whatever the memory of ranks."""
    yield from division_problems(shape, Layout.of(spec.trainer))
    if spec.agent.context_tokens > shape.context:
        yield (
            f"agent.contextTokens {spec.agent.context_tokens} exceeds the model's {shape.context} positions: lower it,"
            " or scale the rotary embedding in config.json"
        )
    elif serves(spec):
        yield from engine_problems(shape, policy_engine(spec), machines.gpu_memory)
    if spec.judge is not None and judge is not None:
        yield from engine_problems(judge, judge_engine(spec.judge), machines.gpu_memory)


def serves(spec: SweRLJobSpec) -> bool:
    """Whether the job runs engines: supervised training alone does not."""
    return spec.algorithm.name != "sft" or spec.evaluation is not None


def training_settings(spec: SweRLJobSpec) -> TrainingSettings:
    """What decides the memory of the job's ranks."""
    trainer, algorithm, lora = spec.trainer, spec.algorithm, spec.model.lora
    longest = ceil(spec.agent.context_tokens / trainer.context_parallel)
    return TrainingSettings(
        bytes_per_weight=BYTES_PER_WEIGHT[spec.model.dtype],
        tokens=max(trainer.max_tokens_per_gpu, longest),
        recompute=trainer.recompute,
        offload=trainer.offload,
        colocate=spec.colocate and serves(spec),
        reference=algorithm.kl_coef > 0,
        adapter_rank=lora.rank if lora else 0,
        adapter_targets=tuple(lora.targets) if lora else (),
    )


def policy_engine(spec: SweRLJobSpec) -> EngineSettings:
    """The engines of the policy."""
    rollout = spec.rollout
    return EngineSettings(
        field="rollout.gpusPerEngine",
        gpus=rollout.gpus_per_engine,
        context=spec.agent.context_tokens,
        bytes_per_weight=BYTES_PER_WEIGHT[spec.model.dtype],
        shares_gpu=spec.colocate,
        arguments=rollout.engine_args,
    )


def judge_engine(judge: JudgeSpec) -> EngineSettings:
    """The engines of the judge, in bfloat16."""
    return EngineSettings("judge.gpusPerEngine", judge.gpus_per_engine, judge.context_tokens, 2, False, {})


def step_work(spec: SweRLJobSpec) -> StepWork:
    """A step of episodes that all fill their context; with dynamicHistory it grows to that over the turns."""
    algorithm, agent = spec.algorithm, spec.agent
    sequences = algorithm.prompts_per_step * algorithm.group_size
    if algorithm.dynamic_history:
        sequences = ceil(sequences * agent.step_limit / 2)
    return StepWork(sequences * agent.context_tokens, agent.context_tokens, algorithm.minibatches, _forwards(algorithm))


def _forwards(algorithm: AlgorithmSpec) -> int:
    """Passes without gradient: the reference's log-probabilities, and the policy's own at the start of the step."""
    correction = algorithm.correction
    rejects = correction.mode == "mask" or correction.veto > 0 or correction.rejection is not None
    whole = rejects or (correction.batch_normalisation and correction.mode != "none")
    own = algorithm.old_logprobs == "trainer" and (algorithm.minibatches > 1 or whole)
    return int(algorithm.kl_coef > 0) + int(own)


def _with_engine(
    ranks: Mapping[Phase, Memory], engine: EngineSettings, served: EngineMemory | None, machines: Machines
) -> dict[Phase, Memory]:
    """With the engine that sleeps on the same GPU, or wakes there at the switch."""
    if served is None or not engine.shares_gpu or not engine.gpus:
        return dict(ranks)
    awake = served.weights if machines.gpu_memory is None else int(engine.fraction * machines.gpu_memory)
    return {
        phase: Memory(
            {**memory.gpu, "engine": RELEASED_ENGINE_BYTES + (awake if phase == "switch" else 0)}, memory.host
        )
        for phase, memory in ranks.items()
    }


def _engine_pods(spec: SweRLJobSpec, served: EngineMemory | None, judged: EngineMemory | None) -> dict[Role, int]:
    """Host bytes of the Pods of engines; with colocate the policy's run in the trainer's Pods."""
    of_role: dict[Role, EngineMemory | None] = {"engine": None if spec.colocate else served, "judge": judged}
    return {role: memory.host + RAY_PROCESSES for role, memory in of_role.items() if memory is not None}


def _engine_warnings(spec: SweRLJobSpec, engine_pods: Mapping[Role, int], machines: Machines) -> Iterator[str]:
    """Of Pods whose limit, or largest node, is below the estimate. It refuses nothing: engines were not measured."""
    limit = _memory_limit(spec.rollout.resources, machines)
    for role, needed in engine_pods.items():
        if limit is not None and needed > limit:
            yield (
                f"{'an' if role == 'engine' else 'a'} {role} Pod needs about {needed / GIB:.1f} GiB of host memory, its"
                f" limit or node has {limit / GIB:.1f} GiB (rollout.resources)"
            )


def _gpu_problems(ranks: Mapping[Phase, Memory], machines: Machines) -> Iterator[str]:
    for phase in PHASES:
        memory = ranks.get(phase)
        if memory is not None and machines.gpu_memory is not None and memory.gpu_bytes > machines.gpu_memory:
            parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in memory.gpu.items() if size)
            yield (
                f"a rank needs {memory.gpu_bytes / GIB:.1f} GiB of its GPU's {machines.gpu_memory / GIB:.1f} GiB at"
                f" {phase} ({parts})"
            )


def _memory_limit(resources: Resources, machines: Machines) -> int | None:
    """Host bytes that a Pod can have at most."""
    limit = resources.limits.get("memory")
    known = [int(parse_quantity(limit))] if limit is not None else []
    return min([*known, *([machines.host_memory] if machines.host_memory is not None else [])], default=None)


def _memory_request(resources: Resources) -> int | None:
    requested = resources.requests.get("memory")
    return None if requested is None else int(parse_quantity(requested))


def _host_text(pods: Mapping[Phase, int], budget: int, whose: str) -> str:
    phase = max(pods, key=lambda name: pods[name])
    return (
        f"a trainer Pod needs {pods[phase] / GIB:.1f} GiB of host memory at {phase}, its {whose}"
        f" {budget / GIB:.1f} GiB (trainer.resources)"
    )
