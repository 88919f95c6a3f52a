"""SweImageSet: pulls the images of tasks on the nodes before sandboxes need them.

Guarantees: handlers only enqueue the set; one worker per set at a time; deleting a set removes its Pods, by
ownerReferences, and keeps the images.
"""

from __future__ import annotations

from typing import Any

import kopf
from swerl_api import GROUP, VERSION

from ..context import OperatorContext
from ..workqueue import ObjectKey, WorkQueue
from .reconciler import ImageSetReconciler

WORKERS = 2  # sets reconciled at once


def register(registry: kopf.OperatorRegistry, context: OperatorContext) -> None:
    """Add the handlers and the work queue of SweImageSets."""
    reconciler = ImageSetReconciler(context)
    queue: WorkQueue[ObjectKey] = WorkQueue("SweImageSet", reconciler.reconcile, context.metrics, workers=WORKERS)

    @kopf.on.event(GROUP, VERSION, "sweimagesets", registry=registry, id="sweimagesets")
    async def changed(namespace: str | None, name: str, **_: Any) -> None:
        queue.add((namespace or "", name))

    context.run_forever("SweImageSet queue", queue.run)
