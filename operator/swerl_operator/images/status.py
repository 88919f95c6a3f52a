"""The status of a SweImageSet, and what of it is read back after a restart."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import ImageSetCondition, ImageSetReason, SweImageSetStatus, set_condition
from swerl_api.conditions import ConditionStatus
from swerl_api.sweimageset import FailedPull, ImageSetPhase, NodeImages, list_hash

from .plan import Ledger, missing

MOST_FAILURES, MOST_MISSING = 50, 100  # that a status lists


def remembered(status: SweImageSetStatus, images: Sequence[str]) -> Ledger:
    """What an earlier operator had pulled; nothing when the list is another one."""
    if status.list_hash != list_hash(images):
        return Ledger()
    return Ledger({node.name: set(node.there(images)) for node in status.per_node})


def described(
    before: SweImageSetStatus,
    images: Sequence[str],
    nodes: Sequence[str],
    ledger: Ledger,
    retries: int,
    generation: int,
) -> SweImageSetStatus:
    """The status that says what the ledger holds."""
    left = missing(images, nodes, ledger)
    per_node = [
        NodeImages(
            name=node,
            present=len(images) - len(left[node]),
            missing=len(left[node]),
            pulled=_bits(images, ledger.pulled.get(node, set())),
        )
        for node in nodes
    ]
    failing = {place: tries for place, tries in ledger.tries.items() if place[1] in left.get(place[0], ())}
    given_up = [place for place, tries in failing.items() if tries.failures > retries]
    lacking = set().union(*left.values())
    total = sum(len(images) for images in left.values())
    status = before.model_copy(
        update={
            "images": len(images),
            "nodes": len(nodes),
            "present": len(images) * len(nodes) - total,
            "missing": total,
            "failed": len(given_up),
            "per_node": per_node,
            "failures": [
                FailedPull(image=place[1], node=place[0], attempts=tries.failures, message=tries.message[:1000])
                for place, tries in sorted(failing.items())[:MOST_FAILURES]
            ],
            "missing_images": [image for image in images if image in lacking][:MOST_MISSING],
            "list_hash": list_hash(images),
            "observed_generation": generation,
        }
    )
    return _judged(status, generation)


def _judged(status: SweImageSetStatus, generation: int) -> SweImageSetStatus:
    if not status.nodes:
        text = "no ready node matches nodeSelector and tolerations; `kubectl get nodes --show-labels` lists them"
        return refused(status, ImageSetReason.NO_NODES, text, generation)
    if not status.missing:
        text = f"{status.images} images on {status.nodes} nodes"
        return _with(status, "Ready", "True", ImageSetReason.ALL_PRESENT, text, generation)
    text = f"{status.missing} of {status.missing + (status.present or 0)} pulls to go"
    if status.failed:
        first = status.failures[0]
        text += f"; {status.failed} fail, the first: {first.image} on {first.node}: {first.message}"
        return _with(status, "Failing", "False", ImageSetReason.PULL_FAILED, text, generation)
    return _with(status, "Pulling", "False", ImageSetReason.PULLING, text, generation)


def refused(status: SweImageSetStatus, reason: str, message: str, generation: int) -> SweImageSetStatus:
    """The status of a set that cannot be worked on until somebody puts something right."""
    return _with(status, "Pending", "False", reason, message, generation)


def _with(
    status: SweImageSetStatus, phase: ImageSetPhase, ready: ConditionStatus, reason: str, text: str, generation: int
) -> SweImageSetStatus:
    conditions = set_condition(status.conditions, ImageSetCondition.READY, ready, reason, text, generation=generation)
    return status.model_copy(update={"phase": phase, "conditions": conditions, "observed_generation": generation})


def _bits(images: Sequence[str], present: set[str]) -> str:
    return f"{sum(1 << n for n, image in enumerate(images) if image in present):x}"
