"""Nodes: GPUs with driver and taints, architectures, RuntimeClasses. Pure: findings from objects of the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .finding import Finding

Json = Mapping[str, Any]
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")  # their taints of the same names are tolerated by GPU Pods
# Labels of nodes with GPUs, put there by feature discovery or by the platform.
GPU_LABELS = (
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
MIN_DRIVER = 580  # of CUDA 13, which the GPU image holds
ARCHITECTURE = "amd64"  # of the images
PLUGIN = "install NVIDIA's GPU Operator, or driver and device plugin: kubectl get pods -A | grep -i nvidia"
NAMED = 3  # nodes in a message


def gpus(nodes: Sequence[Json]) -> Iterator[Finding]:
    """Nodes with GPUs: what they offer, and what keeps GPU Pods away."""
    offering = [node for node in nodes if gpu_count(node)]
    labelled = [node for node in nodes if _labels(node).keys() & set(GPU_LABELS) and not gpu_count(node)]
    if labelled:
        text = f"{_names(labelled)}: labelled as GPU node, but offers no {' or '.join(GPU_RESOURCES)}"
        yield Finding("gpus", "failed", f"{text}: the driver or the device plugin does not run", PLUGIN)
    for node in offering:
        yield from _gpu_node(node)
    if offering:
        total = sum(map(gpu_count, offering))
        yield Finding("gpus", "ok", f"{total} GPUs on {len(offering)} of {len(nodes)} nodes")
    elif not labelled:
        text = f"none of the {len(nodes)} nodes offers GPUs; jobs with trainer.gpus wait or are refused"
        remedy = "none, if an autoscaled node pool is at size zero (capacityCheck: auto|warn); else add GPU nodes"
        yield Finding("gpus", "warning", text, remedy)


def _gpu_node(node: Json) -> Iterator[Finding]:
    name = node["metadata"]["name"]
    foreign = [taint for taint in _taints(node) if taint["key"] not in GPU_RESOURCES and not _is_transient(taint)]
    if foreign:
        taints = ", ".join(f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in foreign)
        remedy = "name it in trainer.tolerations and rollout.tolerations, or remove it: kubectl taint nodes"
        yield Finding("gpus", "warning", f"GPU node {name} has taint {taints}, which GPU Pods do not tolerate", remedy)
    if (node.get("spec") or {}).get("unschedulable"):
        yield Finding("gpus", "warning", f"GPU node {name} is cordoned", f"kubectl uncordon {name}")
    if (condition := _not_ready(node)) is not None:
        text = f"GPU node {name} is not ready: {condition.get('message') or condition.get('reason') or ''}"
        yield Finding("gpus", "warning", text.rstrip(": "), f"kubectl describe node {name}")
    labels = _labels(node)
    driver = next((str(labels[key]) for key in DRIVER_LABELS if key in labels), "")
    if driver.isdecimal() and int(driver) < MIN_DRIVER:
        text = f"GPU node {name} has driver {driver}; the GPU image's CUDA 13 needs {MIN_DRIVER} or later"
        yield Finding("gpus", "failed", text, "upgrade the driver of the node pool, or of NVIDIA's GPU Operator")


def architectures(nodes: Sequence[Json]) -> Iterator[Finding]:
    """Nodes on which the images do not run."""
    foreign = [node for node in nodes if _architecture(node) not in ("", ARCHITECTURE)]
    if foreign:
        kinds = ", ".join(sorted({_architecture(node) for node in foreign}))
        text = f"{_names(foreign)}: architecture {kinds}; task images are mostly {ARCHITECTURE} (exec format error)"
        remedy = f"nodeSelector {{kubernetes.io/arch: {ARCHITECTURE}}} in spec.sandbox, spec.trainer and the chart"
        yield Finding("architecture", "warning", text, remedy)


def runtime_classes(classes: Iterable[Json], nodes: Sequence[Json], runtime_class: str | None) -> Iterator[Finding]:
    """RuntimeClasses: whether `runtime_class` exists, and whether nodes have each."""
    by_name = {found["metadata"]["name"]: found for found in classes}
    if runtime_class is not None and runtime_class not in by_name:
        text = f"RuntimeClass {runtime_class!r} does not exist; there are: {', '.join(sorted(by_name)) or 'none'}"
        remedy = (
            "install that runtime on the nodes and create its RuntimeClass, or name another in sandbox.runtimeClassName"
        )
        yield Finding("runtime-classes", "failed", text, remedy)
    for name, found in sorted(by_name.items()):
        selector = (found.get("scheduling") or {}).get("nodeSelector") or {}
        if selector and not any(selector.items() <= _labels(node).items() for node in nodes):
            text = f"RuntimeClass {name}: no node has its labels {_pairs(selector)}"
            yield Finding("runtime-classes", "warning", text, "label the nodes that have the runtime")
    yield Finding("runtime-classes", "ok", f"RuntimeClasses: {', '.join(sorted(by_name)) or 'none'}")


def gpu_count(node: Json) -> int:
    """GPUs that the node offers to Pods."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return sum(int(allocatable.get(resource) or 0) for resource in GPU_RESOURCES)


def _labels(node: Json) -> Json:
    labels: Json = node["metadata"].get("labels") or {}
    return labels


def _taints(node: Json) -> list[Json]:
    return [one for one in (node.get("spec") or {}).get("taints") or () if one["effect"] != "PreferNoSchedule"]


def _is_transient(taint: Json) -> bool:
    return str(taint["key"]).startswith("node.kubernetes.io/")  # not-ready, unschedulable, ...: reported otherwise


def _not_ready(node: Json) -> Json | None:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "Ready" and one["status"] != "True"), None)


def _architecture(node: Json) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("architecture") or "")


def _names(nodes: Sequence[Json]) -> str:
    names = [str(node["metadata"]["name"]) for node in nodes]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"node {', '.join(names[:NAMED])}{more}"


def _pairs(labels: Json) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())
