"""SweEval: an Indexed Job of shards, with engines on Ray if it needs them, then merged results.

Guarantees: handlers only enqueue the object (no annotations, no finalizers); reconciliation is level-triggered, one
worker per evaluation at a time; deleting the object removes everything but the results, by ownerReferences,
and its sandboxes by the Lease of each shard's process.
"""

from __future__ import annotations

from typing import Any

import kopf
from swerl_api import GROUP, VERSION

from ..context import OperatorContext
from ..ray.jobs import RayJobs
from ..workqueue import ObjectKey, WorkQueue
from .reconciler import EvalReconciler

WORKERS = 2  # evaluations reconciled at once


def register(registry: kopf.OperatorRegistry, context: OperatorContext) -> None:
    """Add the handlers and the work queue of SweEvals."""
    ray = RayJobs()
    reconciler = EvalReconciler(context, ray)
    queue: WorkQueue[ObjectKey] = WorkQueue("SweEval", reconciler.reconcile, context.metrics, workers=WORKERS)

    @kopf.on.event(GROUP, VERSION, "sweevals", registry=registry, id="sweevals")
    async def changed(namespace: str | None, name: str, **_: Any) -> None:
        queue.add((namespace or "", name))

    async def work() -> None:
        async with ray:
            await queue.run()

    context.run_forever("SweEval queue", work)
