"""Builds the status of a SweImageSet, and restores the pull history from it after a restart."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import ImageSetCondition, ImageSetReason, SweImageSetSpec, SweImageSetStatus, set_condition
from swerl_api.conditions import ConditionStatus
from swerl_api.sweimageset import FailedPull, ImageSetPhase, NodeImages, list_hash

from .decide import PullFailures, PullHistory, missing
from .observe import PullTarget

MAX_LISTED_FAILURES, MAX_LISTED_IMAGES = 50, 100  # entries in a status


def restore_history(status: SweImageSetStatus, images: Sequence[str]) -> PullHistory:
    """What an earlier operator process pulled; empty when the list of images has changed."""
    if status.list_hash != list_hash(images):
        return PullHistory()
    return PullHistory({node.name: set(node.pulled_images(images)) for node in status.per_node})


def build_status(
    previous: SweImageSetStatus,
    images: Sequence[str],
    nodes: Sequence[str],
    history: PullHistory,
    spec: SweImageSetSpec,
    generation: int,
) -> SweImageSetStatus:
    """The status that describes `history`."""
    missing_by_node = missing(images, nodes, history)
    per_node = [
        NodeImages(
            name=node,
            present=len(images) - len(missing_by_node[node]),
            missing=len(missing_by_node[node]),
            pulled=_bit_mask(images, history.pulled.get(node, set())),
        )
        for node in nodes
    ]
    failing = {
        target: failures
        for target, failures in history.failures.items()
        if target[1] in missing_by_node.get(target[0], ())
    }
    ordered = sorted(failing.items())
    exhausted = [target for target, failures in ordered if failures.count > spec.retries]
    missing_somewhere = set().union(*missing_by_node.values())
    total = sum(len(images) for images in missing_by_node.values())
    status = previous.model_copy(
        update={
            "images": len(images),
            "nodes": len(nodes),
            "present": len(images) * len(nodes) - total,
            "missing": total,
            "failed": len(exhausted),
            "per_node": per_node,
            "failures": [_failed_pull(*each) for each in ordered[:MAX_LISTED_FAILURES]],
            "missing_images": [image for image in images if image in missing_somewhere][:MAX_LISTED_IMAGES],
            "list_hash": list_hash(images),
            "observed_generation": generation,
        }
    )
    refused = [each for each in ordered if each[1].refused]
    return _with_ready_condition(status, refused, generation)


def _failed_pull(target: PullTarget, failures: PullFailures) -> FailedPull:
    node, image = target
    return FailedPull(image=image, node=node, failures=failures.count, message=failures.message[:1000])


def _with_ready_condition(
    status: SweImageSetStatus, refused: Sequence[tuple[PullTarget, PullFailures]], generation: int
) -> SweImageSetStatus:
    """`refused`: pulls whose Pod the API server refuses, which no retry is likely to change."""
    if not status.nodes:
        text = "no ready node matches nodeSelector and tolerations; `kubectl get nodes --show-labels` lists them"
        return blocked_status(status, ImageSetReason.NO_NODES, text, generation)
    if not status.missing:
        text = f"{status.images} images on {status.nodes} nodes"
        return _with_condition(status, "Ready", "True", ImageSetReason.ALL_PRESENT, text, generation)
    text = f"{status.missing} of {status.missing + (status.present or 0)} pulls to go"
    if refused:
        text += f"; {len(refused)} are refused, the first: {_description(_failed_pull(*refused[0]))}"
        return _with_condition(status, "Failing", "False", ImageSetReason.POD_REFUSED, text, generation)
    if status.failed:
        text += f"; {status.failed} fail, the first: {_description(status.failures[0])}"
        return _with_condition(status, "Failing", "False", ImageSetReason.PULL_FAILED, text, generation)
    if status.failures:
        text += f"; some are retried, the first: {_description(status.failures[0])}"
    return _with_condition(status, "Pulling", "False", ImageSetReason.PULLING, text, generation)


def _description(pull: FailedPull) -> str:
    return f"{pull.image} on {pull.node}: {pull.message}"


def blocked_status(status: SweImageSetStatus, reason: str, message: str, generation: int) -> SweImageSetStatus:
    """The status of a set that waits until a user fixes something."""
    return _with_condition(status, "Pending", "False", reason, message, generation)


def _with_condition(
    status: SweImageSetStatus, phase: ImageSetPhase, ready: ConditionStatus, reason: str, text: str, generation: int
) -> SweImageSetStatus:
    conditions = set_condition(status.conditions, ImageSetCondition.READY, ready, reason, text, generation=generation)
    return status.model_copy(update={"phase": phase, "conditions": conditions, "observed_generation": generation})


def _bit_mask(images: Sequence[str], present: set[str]) -> str:
    return f"{sum(1 << n for n, image in enumerate(images) if image in present):x}"
