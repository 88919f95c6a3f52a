"""Reconciles SweImageSets: read the set, its nodes and its Pods, decide, delete and create Pods, write the status.

Guarantees: after a restart the status names the pulled images, and failures count from zero; an unchanged status
is not written; pulls on all nodes together stay below `pullsPerMinute`, shared by the sets that pull at the same time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pydantic import ValidationError
from swerl_api import API_VERSION, ImageSetReason, SweImageSetSpec, SweImageSetStatus
from swerl_api.names import IMAGE_SET_LABEL
from swerl_api.sweimageset import list_hash
from swerl_kube import NOT_ADMITTED, Conflict, Json, NotFound

from ..context import OperatorContext
from ..owned import ForeignObject, ensure_owned, foreign_message, has_owner
from ..status_builder import invalid_spec_message
from ..workqueue import ObjectKey
from .decide import PullDecision, PullHistory, decide, missing, record_failure
from .manifests import pull_pod, pull_policy
from .observe import read_pull, selected_nodes
from .status import blocked_status, build_status, restore_history

PULLING_SECONDS = 2.0  # between two reconciliations while Pods pull
BLOCKED_SECONDS = 10.0  # until a missing list is checked again
IDLE_SECONDS = 60.0  # until new nodes and changed lists are checked
BURST_SECONDS = 4.0  # of pulls that may start at once; with one more per set the most beyond the rate in any minute


@dataclass
class _SetState:
    """One set between two reconciliations."""

    uid: str  # of the set: a new set of the same name has pulled nothing
    list_hash: str
    history: PullHistory
    tokens: float
    filled_at: float = field(default_factory=time.monotonic)
    has_due_pulls: bool = True  # the budget may limit it

    def budget(self, per_minute: int, sharing: int) -> int:
        """Pulls that may start now; `sharing` sets share the rate, this one included."""
        now, rate = time.monotonic(), per_minute / 60 / sharing
        self.tokens = min(self.tokens + rate * (now - self.filled_at), max(1.0, rate * BURST_SECONDS))
        self.filled_at = now
        return int(self.tokens)


class ImageSetReconciler:
    """Brings one SweImageSet at a time a step further."""

    def __init__(self, context: OperatorContext) -> None:
        self._api = context.api
        self._states: dict[ObjectKey, _SetState] = {}

    async def reconcile(self, key: ObjectKey) -> float | None:
        """One step; seconds until the next one, or None when the set is gone."""
        body = await self._api.find(API_VERSION, "sweimagesets", *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._states.pop(key, None)
            return None
        status = SweImageSetStatus.model_validate(body.get("status") or {})
        generation = int(body["metadata"]["generation"])
        try:
            spec = SweImageSetSpec.from_stored(body["spec"])
            images = await self._images(key[0], spec)
        except (ValidationError, _ListMissing) as error:
            reason, text = ImageSetReason.LIST_MISSING, str(error)
            if isinstance(error, ValidationError):
                reason, text = ImageSetReason.INVALID_SPEC, invalid_spec_message(error)
            if key in self._states:
                self._states[key].has_due_pulls = False
            await self._write(body, status, blocked_status(status, reason, text, generation))
            return BLOCKED_SECONDS
        nodes = selected_nodes(await self._api.list("v1", "nodes", None), spec)
        state = self._state(key, body, status, images)
        decision = await self._step(body, spec, images, nodes, state)
        await self._write(body, status, build_status(status, images, nodes, state.history, spec, generation))
        if not any(missing(images, nodes, state.history).values()):
            return IDLE_SECONDS
        return PULLING_SECONDS if decision.requeue_after is None else min(PULLING_SECONDS, decision.requeue_after)

    async def _images(self, namespace: str, spec: SweImageSetSpec) -> list[str]:
        """References in their order, each once, rewritten."""
        listed = ""
        if spec.images_from is not None:
            source = spec.images_from
            config_map = await self._api.find("v1", "configmaps", namespace, source.config_map)
            text = (config_map or {}).get("data", {}).get(source.key)
            if text is None:
                raise _ListMissing(
                    f"ConfigMap {source.config_map!r} with key {source.key!r} does not exist in namespace "
                    f"{namespace!r}; create it from the output of `swerl tasks images`"
                )
            listed = text
        return spec.references(listed)

    def _state(self, key: ObjectKey, body: Json, status: SweImageSetStatus, images: list[str]) -> _SetState:
        state, uid = self._states.get(key), str(body["metadata"]["uid"])
        if state is None or (state.uid, state.list_hash) != (uid, list_hash(images)):
            tokens = state.tokens if state else 1.0 / (1 + self._sets_with_due_pulls())
            state = self._states[key] = _SetState(uid, list_hash(images), restore_history(status, images), tokens)
        return state

    def _sets_with_due_pulls(self, excluding: _SetState | None = None) -> int:
        """How many sets have pulls that are due."""
        return sum(state.has_due_pulls for state in self._states.values() if state is not excluding)

    async def _step(
        self, body: Json, spec: SweImageSetSpec, images: list[str], nodes: list[str], state: _SetState
    ) -> PullDecision:
        metadata = body["metadata"]
        selector = f"{IMAGE_SET_LABEL}={metadata['name']}"
        pods = await self._api.list("v1", "pods", metadata["namespace"], labels=selector)
        own = [pod for pod in pods if has_owner(pod, metadata["uid"])]  # others may have the label, such as sandboxes
        pulls = [read_pull(pod) for pod in own if "deletionTimestamp" not in pod["metadata"]]
        sharing = self._sets_with_due_pulls(excluding=state) + 1
        budget = state.budget(spec.pulls_per_minute, sharing)
        decision = decide(spec, images, nodes, pulls, state.history, time.monotonic(), budget=budget)
        state.has_due_pulls = decision.has_due_pulls
        for pod in decision.delete:
            await self._api.delete("v1", "pods", metadata["namespace"], pod, grace_seconds=0)
        refusal = await self._isolate(body) if decision.create else None
        for target in decision.create:
            if refusal is not None:
                record_failure(state.history, target, refusal, time.monotonic())
                continue
            pull = pull_pod(body, spec, target)
            try:
                await self._api.create("pods", pull)
                state.tokens -= 1
            except Conflict:
                if text := await self._foreign(body, pull):
                    record_failure(state.history, target, text, time.monotonic())
            except NOT_ADMITTED as error:  # a quota, an invalid image: the others go on
                text = f"the API server refuses its Pod: {error.message}"
                record_failure(state.history, target, text, time.monotonic(), refused=True)
        return decision

    async def _foreign(self, body: Json, pod: Json) -> str:
        """Why the set cannot have its Pod: others have one of the name; '' while an earlier one is being deleted."""
        metadata = pod["metadata"]
        found = await self._api.find("v1", "pods", metadata["namespace"], metadata["name"])
        if found is None or "deletionTimestamp" in found["metadata"] or has_owner(found, body["metadata"]["uid"]):
            return ""
        return foreign_message("Pod", metadata["namespace"], metadata["name"], "SweImageSet")

    async def _isolate(self, body: Json) -> str | None:
        """Create the NetworkPolicy of the set's Pods; why that is impossible."""
        try:
            await ensure_owned(self._api, "networkpolicies", pull_policy(body), "spec")
        except (ForeignObject, *NOT_ADMITTED) as error:
            return f"its Pod would have a network: {error}"
        return None

    async def _write(self, body: Json, previous: SweImageSetStatus, status: SweImageSetStatus) -> None:
        if previous == status:
            return
        metadata = body["metadata"]
        patch = {"status": status.model_dump(mode="json", by_alias=True)}
        try:
            await self._api.patch(
                API_VERSION, "sweimagesets", metadata["namespace"], metadata["name"], patch, subresource="status"
            )
        except NotFound:
            return


class _ListMissing(Exception):
    """The ConfigMap with the list does not exist."""
