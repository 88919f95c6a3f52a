"""The shell around the plan: read the set, its nodes and its Pods; delete and create Pods; write the status.

Guarantees: what is pulled is known from the status after a restart, failures are counted anew; a status that says
nothing new is not written; pulls over all nodes keep to `pullsPerMinute`, which sets that pull at the same time share.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pydantic import ValidationError
from swerl_api import API_VERSION, ImageSetReason, SweImageSetSpec, SweImageSetStatus
from swerl_api.names import IMAGE_SET_LABEL
from swerl_api.sweimageset import list_hash

from ..context import OperatorContext
from ..draft import unreadable_spec
from ..errors import Conflict, Forbidden, Invalid, NotFound
from .nodes import wanted_nodes
from .plan import Ledger, Plan, missing, note_failure, plan
from .pods import Object, pull_pod, read_pull
from .status import described, refused, remembered

Key = tuple[str, str]  # namespace, name
PULLING_SECONDS = 2.0  # between two looks while Pods pull
BLOCKED_SECONDS = 10.0  # until a list that was not there is looked for again
IDLE_SECONDS = 60.0  # until new nodes, or a list that was changed, are looked for
BURST_SECONDS = 4.0  # of pulls that may start at once, and so (or one a set) the most beyond the rate in any minute


@dataclass
class _Work:
    """One set between two looks."""

    uid: str  # of the set: one that was deleted and made anew has pulled nothing
    list_hash: str
    ledger: Ledger
    tokens: float
    filled_at: float = field(default_factory=time.monotonic)
    eager: bool = True  # it would start more pulls than its budget has

    def budget(self, per_minute: int, sharing: int) -> int:
        """Pulls that may start now, by a set that shares the rate with `sharing` - 1 others."""
        now, rate = time.monotonic(), per_minute / 60 / sharing
        self.tokens = min(self.tokens + rate * (now - self.filled_at), max(1.0, rate * BURST_SECONDS))
        self.filled_at = now
        return int(self.tokens)


class ImageSetReconciler:
    """Brings one SweImageSet at a time a step further."""

    def __init__(self, context: OperatorContext) -> None:
        self._api = context.api
        self._works: dict[Key, _Work] = {}

    async def reconcile(self, key: Key) -> float | None:
        """One step; seconds until the next one, or None when the set is gone."""
        body = await self._api.find(API_VERSION, "sweimagesets", *key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._works.pop(key, None)
            return None
        status = SweImageSetStatus.model_validate(body.get("status") or {})
        generation = int(body["metadata"]["generation"])
        try:
            spec = SweImageSetSpec.model_validate(body["spec"])
            images = await self._images(key[0], spec)
        except (ValidationError, _ListMissing) as error:
            reason, text = ImageSetReason.LIST_MISSING, str(error)
            if isinstance(error, ValidationError):
                reason, text = ImageSetReason.INVALID_SPEC, unreadable_spec(error)
            if key in self._works:
                self._works[key].eager = False
            await self._write(body, status, refused(status, reason, text, generation))
            return BLOCKED_SECONDS
        nodes = wanted_nodes(await self._api.list("v1", "nodes", None), spec)
        work = self._work(key, body, status, images)
        chosen = await self._step(body, spec, images, nodes, work)
        await self._write(body, status, described(status, images, nodes, work.ledger, spec.retries, generation))
        if not any(missing(images, nodes, work.ledger).values()):
            return IDLE_SECONDS
        return PULLING_SECONDS if chosen.wait is None else min(PULLING_SECONDS, chosen.wait)

    async def _images(self, namespace: str, spec: SweImageSetSpec) -> list[str]:
        """References in their order, each once, rewritten."""
        listed = ""
        if spec.images_from is not None:
            source = spec.images_from
            held = await self._api.find("v1", "configmaps", namespace, source.config_map)
            text = (held or {}).get("data", {}).get(source.key)
            if text is None:
                raise _ListMissing(
                    f"ConfigMap {source.config_map!r} with key {source.key!r} does not exist in namespace "
                    f"{namespace!r}; make it from what `swerl tasks images` prints"
                )
            listed = text
        return spec.references(listed)

    def _work(self, key: Key, body: Object, status: SweImageSetStatus, images: list[str]) -> _Work:
        work, uid = self._works.get(key), str(body["metadata"]["uid"])
        if work is None or (work.uid, work.list_hash) != (uid, list_hash(images)):
            tokens = work.tokens if work else 1.0 / (1 + self._eager())
            work = self._works[key] = _Work(uid, list_hash(images), remembered(status, images), tokens)
        return work

    def _eager(self, but: _Work | None = None) -> int:
        """Sets that would pull more at once if they might."""
        return sum(work.eager for work in self._works.values() if work is not but)

    async def _step(
        self, body: Object, spec: SweImageSetSpec, images: list[str], nodes: list[str], work: _Work
    ) -> Plan:
        metadata = body["metadata"]
        selector = f"{IMAGE_SET_LABEL}={metadata['name']}"
        pods = await self._api.list("v1", "pods", metadata["namespace"], labels=selector)
        pulls = [read_pull(pod) for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        sharing = self._eager(but=work) + 1
        chosen = plan(
            images, nodes, pulls, work.ledger, time.monotonic(),
            parallel=spec.parallel_per_node, budget=work.budget(spec.pulls_per_minute, sharing),
        )  # fmt: skip
        work.eager = chosen.eager
        for pod in chosen.delete:
            await self._api.delete("v1", "pods", metadata["namespace"], pod, grace=0)
        for place in chosen.create:
            try:
                await self._api.create("pods", pull_pod(body, spec, place))
                work.tokens -= 1
            except Conflict:
                continue  # the one before is still being deleted
            except (Forbidden, Invalid) as error:  # a quota, a policy, or what is no image: the others go on
                note_failure(work.ledger, place, f"the API server refuses its Pod: {error.message}", time.monotonic())
        return chosen

    async def _write(self, body: Object, before: SweImageSetStatus, after: SweImageSetStatus) -> None:
        if before == after:
            return
        metadata = body["metadata"]
        patch = {"status": after.model_dump(mode="json", by_alias=True)}
        try:
            await self._api.patch(
                API_VERSION, "sweimagesets", metadata["namespace"], metadata["name"], patch, sub="status"
            )
        except NotFound:
            return


class _ListMissing(Exception):
    """The ConfigMap with the list is not there."""
