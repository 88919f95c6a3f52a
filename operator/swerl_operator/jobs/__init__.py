"""SweRLJob: attempts, each a Ray cluster with a driver, until the job is Complete or Failed.

Guarantees: handlers only enqueue the object (no annotations, no finalizers); reconciliation is level-triggered, one
worker per job at a time; deleting the object removes everything, by ownerReferences.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import kopf
from swerl_api import GROUP, VERSION
from swerl_api.swerljob import JobPhase

from ..context import OperatorContext
from ..ray.jobs import RayJobs
from ..workqueue import ObjectKey, WorkQueue
from .disruptions import DisruptionWatch
from .reconciler import JobReconciler

PHASES: tuple[JobPhase, ...] = (
    "Pending", "Blocked", "Starting", "Training", "Retrying", "Suspended", "Complete", "Failed",
)  # fmt: skip


def register(registry: kopf.OperatorRegistry, context: OperatorContext) -> None:
    """Add the handlers and the work queue of SweRLJobs."""
    ray = RayJobs()
    reconciler = JobReconciler(context, ray)
    queue: WorkQueue[ObjectKey] = WorkQueue(
        "SweRLJob", reconciler.reconcile, context.metrics, workers=context.settings.job_workers
    )
    phases: dict[ObjectKey, str] = {}

    @kopf.on.event(GROUP, VERSION, "swerljobs", registry=registry, id="swerljobs")
    async def changed(namespace: str | None, name: str, type: str | None, body: kopf.Body, **_: Any) -> None:
        key = (namespace or "", name)
        if type == "DELETED":
            phases.pop(key, None)
        else:
            phases[key] = str(body.get("status", {}).get("phase") or "Pending")
            queue.add(key)
        counts = Counter(phases.values())
        for phase in PHASES:
            context.metrics.jobs.labels(phase=phase).set(counts[phase])

    async def work() -> None:
        async with ray:
            await queue.run()

    context.run_forever("SweRLJob queue", work)
    context.run_forever("Ray Pods", DisruptionWatch(context.api, context.settings.namespaces, queue.add).run)
