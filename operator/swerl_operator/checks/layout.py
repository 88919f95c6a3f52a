"""Checks that a job's model fits its layout, before any of its Ray Pods is created.

Guarantees: pure; models that are known by their Hugging Face id are planned at once, others of the Hub once the
preflight Pod has downloaded them; the driver plans those of images and volumes. The size of GPUs is known where
NVIDIA's GPU feature discovery labels the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import JobReason, RayPodTemplate, SweRLJobSpec
from swerl_api.quantity import parse_amounts
from swerl_kube import Json
from swerl_plan import Machines, Models, known_models, refusal
from swerl_plan.nodes import accepts, toleration_manifests

from ..problem import Problem

GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"  # MiB of one GPU
MIB = 2**20


def layout_problem(spec: SweRLJobSpec, nodes: Sequence[Json], downloaded: Models | None = None) -> Problem | None:
    """Why the model cannot be trained and served in the spec's layout, with one that fits; None when it can.

    `downloaded`: what the preflight read; it precedes what is known by id.
    """
    known = known_models(spec)
    try:
        text = refusal(spec, downloaded.or_else(known) if downloaded else known, machines(spec, nodes))
    except (TypeError, ValueError) as error:
        return Problem(JobReason.INVALID_SPEC, f"spec.rollout.engineArgs: {error}")
    return Problem(JobReason.LAYOUT_REFUSED, text) if text else None


def machines(spec: SweRLJobSpec, nodes: Sequence[Json]) -> Machines:
    """The largest GPU and host memory of the nodes that accept the job's Pods."""
    trainer, template = spec.trainer, spec.trainer.pod_template or RayPodTemplate()
    selector = trainer.node_selector | template.node_selector
    tolerations = toleration_manifests([*trainer.tolerations, *template.tolerations], gpus=trainer.gpus > 0)
    accepting = [node for node in nodes if accepts(node, selector, tolerations)]
    labels = [str(node["metadata"].get("labels", {}).get(GPU_MEMORY_LABEL, "")) for node in accepting]
    hosts = [parse_amounts(node.get("status", {}).get("allocatable")).get("memory") for node in accepting]
    return Machines(
        gpu_memory=max((int(label) * MIB for label in labels if label.isdecimal()), default=None),
        host_memory=max((int(memory) for memory in hosts if memory is not None), default=None),
    )
