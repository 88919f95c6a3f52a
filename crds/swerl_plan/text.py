"""A plan as lines of text, for terminals and the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swerl_api import SweRLJobSpec

from .engine import EngineMemory
from .job import JobPlan
from .layout import Layout
from .memory import GIB
from .shape import ModelShape

_SHOWN = 0.05 * GIB  # smaller parts are left out
_GROUP_AXES = {"tensor": "TP", "context": "CP", "expert": "EP", "data": "DP", "pipeline": "PP"}


def plan_text(spec: SweRLJobSpec, shape: ModelShape, plan: JobPlan) -> str:
    """The plan of `spec` in lines."""
    return "\n".join([_model(shape), *_layout(plan.layout), *_phases(plan), *_engines(spec, plan), *_traffic(plan)])


def engines_text(shape: ModelShape, engines: int, gpus: int, memory: EngineMemory) -> str:
    """The plan of `engines` of `gpus` GPUs each, without a job, in lines."""
    return f"{_model(shape)}\nengines  {_served(engines, gpus, memory)}"


def _model(shape: ModelShape) -> str:
    active = f" ({shape.active / 1e9:.1f} B active)" if shape.experts else ""
    return f"model    {shape.parameters / 1e9:.1f} B parameters{active}, {shape.layers} layers, context {shape.context}"


def _layout(layout: Layout) -> Iterator[str]:
    device = f"Pods of {layout.gpus} GPUs" if layout.gpus else "Pods without GPUs"
    yield f"ranks    {layout.ranks} in {layout.pods} {device}"
    for axis, groups in layout.groups().items():
        place = "across Pods" if layout.crosses_pods(axis) else "inside a Pod"
        first = ",".join(map(str, groups[0]))
        chunks = f", {layout.virtual} chunks of layers each" if axis == "pipeline" and layout.virtual > 1 else ""
        yield f"{_GROUP_AXES[axis]:<8} {len(groups)} groups of {len(groups[0])} {place}, first: ranks {first}{chunks}"


def _phases(plan: JobPlan) -> Iterator[str]:
    for phase, memory in plan.ranks.items():
        host = f"{plan.pods[phase] / GIB:.0f} GiB of a Pod's host"
        if memory.gpu:
            yield f"{phase:<8} {memory.gpu_bytes / GIB:.1f} GiB of a GPU ({_parts(memory.gpu)}), {host}"
        else:
            yield f"{phase:<8} {memory.host_bytes / GIB:.2f} GiB of a rank ({_parts(memory.host)}), {host}"


def _engines(spec: SweRLJobSpec, plan: JobPlan) -> Iterator[str]:
    if plan.engine is not None:
        rollout, pod = spec.rollout, plan.engine_pods.get("engine")
        yield f"engines  {_served(rollout.engines, rollout.gpus_per_engine, plan.engine, pod)}"
    if spec.judge is not None and plan.judge is not None:
        pod = plan.engine_pods.get("judge")
        yield f"judge    {_served(spec.judge.engines, spec.judge.gpus_per_engine, plan.judge, pod)}"


def _served(engines: int, gpus: int, memory: EngineMemory, pod: int | None = None) -> str:
    """`pod`: host bytes of a Pod of its own; None: engines run in the trainer's Pods."""
    size, each = (f"{engines} of {gpus} GPUs", "each GPU") if gpus else (f"{engines}", "each")
    cache = "" if memory.cache is None else f", a cache of {memory.cached_tokens} tokens ({memory.cache / GIB:.1f} GiB)"
    host = "" if pod is None else f", {pod / GIB:.0f} GiB of a Pod's host"
    return f"{size}, {each} with {memory.weights / GIB:.1f} GiB of weights{cache}{host}"


def _traffic(plan: JobPlan) -> Iterator[str]:
    traffic = plan.traffic
    sent = ", ".join(f"{axis} {_bytes(size)}" for axis, size in traffic.sent.items()) or "nothing"
    yield f"traffic  a rank sends at most, per step: {sent}"
    update = f"to each engine GPU per update {_bytes(traffic.update)}, " if plan.engine else ""
    yield f"         {update}a checkpoint {_bytes(traffic.checkpoint)}"


def _parts(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size > _SHOWN) or "little"


def _bytes(size: int) -> str:
    return f"{size / 1e12:.1f} TB" if size >= 1e12 else f"{size / 1e9:.1f} GB"
