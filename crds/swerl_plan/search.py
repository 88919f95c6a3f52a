"""Layouts that fit: what a refused job should use instead.

Guarantees: only fields of `trainer` and `rollout.gpusPerEngine` are changed, and only the number of Pods when no layout
of the given ones fits; of those that fit with room, the one with the quickest step comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from swerl_api import SweRLJobSpec, TrainerSpec

from .engine import engine_problems
from .job import JobPlan, Machines, plan_job, policy_engine
from .layout import Layout, division_problems
from .shape import ModelShape

ROOM = 0.9  # of a GPU or a host that a proposed layout may use
MORE_PODS = (1, 2, 4, 8)  # times the Pods of the job
CONTEXTS = (1, 2, 4, 8)
RECOMPUTE: tuple[Literal["none", "full"], ...] = ("none", "full")


@dataclass(frozen=True)
class Proposal:
    """A change of the spec, by field as users write it, and its plan."""

    changes: dict[str, Any]
    plan: JobPlan

    def __str__(self) -> str:
        return ", ".join(f"{field} {_written(value)}" for field, value in self.changes.items())


def propose(spec: SweRLJobSpec, shape: ModelShape, machines: Machines) -> Proposal | None:
    """The quickest change with which the job fits; None when more Pods do not help either."""
    spec = _with_engine(spec, shape, machines)
    for more in MORE_PODS if spec.trainer.gpus and not spec.colocate else (1,):
        found = _plans(spec, shape, machines, spec.trainer.replicas * more)
        best = min(found, key=lambda one: one[1].traffic.seconds, default=None)
        if best is not None:
            return Proposal(_changes(spec.trainer, best[0]), best[1])
    return None


def _plans(
    spec: SweRLJobSpec, shape: ModelShape, machines: Machines, pods: int
) -> Iterator[tuple[SweRLJobSpec, JobPlan]]:
    """Every candidate that fits with room."""
    offloads = (False, True) if spec.trainer.gpus else (False,)
    for layout, recompute, offload in product(_layouts(spec.trainer, shape, pods), RECOMPUTE, offloads):
        fields = {
            "replicas": layout.pods,
            "tensor_parallel": layout.tensor,
            "pipeline_parallel": layout.pipeline,
            "virtual_pipeline": layout.virtual,
            "context_parallel": layout.context,
            "expert_parallel": layout.expert,
            "recompute": recompute,
            "offload": offload,
        }
        changed = spec.model_copy(update={"trainer": spec.trainer.model_copy(update=fields)})
        plan = plan_job(changed, shape, machines)
        if plan is not None and not plan.problems and _has_room(plan, machines):
            yield changed, plan


def _layouts(trainer: TrainerSpec, shape: ModelShape, pods: int) -> Iterator[Layout]:
    """Layouts of `pods` Pods that divide the model; tensor parallelism stays inside a Pod. Stages are interleaved as
    they are in `trainer`, or not at all."""
    experts = _divisors(shape.experts.count) if shape.experts else [1]
    inside = trainer.ranks_per_pod
    for tensor, pipeline, context, expert, virtual in product(
        _divisors(inside),
        _divisors(shape.layers),
        CONTEXTS,
        (size for size in experts if inside % size == 0),
        {1, trainer.virtual_pipeline},
    ):
        if pipeline == 1 and virtual > 1:
            continue
        layout = Layout(pods, trainer.gpus, tensor, pipeline, context, expert, virtual, trainer.cpu_ranks)
        if pipeline <= pods * inside and layout.is_whole and not any(division_problems(shape, layout)):
            yield layout


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _has_room(plan: JobPlan, machines: Machines) -> bool:
    gpu = machines.gpu_memory is None or plan.gpu_peak <= ROOM * machines.gpu_memory
    return gpu and (plan.host_budget is None or plan.host_peak <= ROOM * plan.host_budget)


def _with_engine(spec: SweRLJobSpec, shape: ModelShape, machines: Machines) -> SweRLJobSpec:
    """With the fewest GPUs per engine that serve the model, if those of the spec do not."""
    rollout = spec.rollout
    for gpus in (rollout.gpus_per_engine, *_divisors(max(8, spec.trainer.gpus))):
        if bool(gpus) != bool(spec.trainer.gpus) or rollout.engines * rollout.gpus_per_engine % max(1, gpus):
            continue
        engines = rollout.engines * rollout.gpus_per_engine // gpus if gpus else rollout.engines
        changed = rollout.model_copy(update={"gpus_per_engine": gpus, "engines": engines})
        candidate = spec.model_copy(update={"rollout": changed})
        if not any(engine_problems(shape, policy_engine(candidate), machines.gpu_memory)):
            return candidate
    return spec


def _changes(refused: TrainerSpec, spec: SweRLJobSpec) -> dict[str, Any]:
    trainer = spec.trainer
    before, sizes = _sizes(refused), _sizes(trainer)
    changes: dict[str, Any] = {"replicas": trainer.replicas}
    changes |= {f: size for f, size in sizes.items() if max(size, before[f]) > 1 or f == "tensorParallel"}
    return changes | {
        "recompute": trainer.recompute,
        "offload": trainer.offload,
        "rollout.engines": spec.rollout.engines,
        "rollout.gpusPerEngine": spec.rollout.gpus_per_engine,
    }


def _sizes(trainer: TrainerSpec) -> dict[str, int]:
    return {
        "tensorParallel": trainer.tensor_parallel,
        "pipelineParallel": trainer.pipeline_parallel,
        "virtualPipeline": trainer.virtual_pipeline,
        "contextParallel": trainer.context_parallel,
        "expertParallel": trainer.expert_parallel,
    }


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
