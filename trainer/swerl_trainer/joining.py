"""Waits until the Pods of an attempt, or of an evaluation's engines, have joined Ray.

Guarantees: what runs in a Pod may start as soon as that Pod has joined; after `joinTimeoutSeconds` an error says how
many of which Pods are missing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from swerl_api import SweRLJobSpec
from swerl_api.names import ENGINE_RESOURCE, JUDGE_RESOURCE, TRAIN_RESOURCE

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5  # between two readings of Ray's nodes
LOG_SECONDS = 60.0  # between two log lines about missing Pods
Nodes = Sequence[Mapping[str, Any]]  # as `ray.nodes()` has them


class PodsMissing(RuntimeError):
    """Pods did not join Ray in time."""


@dataclass(frozen=True)
class ExpectedPods:
    """Pods of one role, each with `units` of a custom Ray resource."""

    role: str
    resource: str
    pods: int
    units: int = 1


def expected_pods(spec: SweRLJobSpec, *, generates: bool) -> list[ExpectedPods]:
    """The Pods of a job besides its head; `generates`: it runs episodes, which need engines."""
    trainer = spec.trainer
    expected = [ExpectedPods("trainer", TRAIN_RESOURCE, trainer.replicas, trainer.ranks_per_pod)]
    if generates and not spec.colocate:
        expected.append(ExpectedPods("engine", ENGINE_RESOURCE, spec.rollout.engines))
    if generates and spec.judge is not None:
        expected.append(ExpectedPods("judge", JUDGE_RESOURCE, spec.judge.engines))
    return expected


class PodJoining:
    """Follows which Pods have joined; `joined` waits for what `watch` finds."""

    def __init__(
        self,
        expected: Sequence[ExpectedPods],
        timeout: float,
        read_nodes: Callable[[], Nodes],
        *,
        field: str = "trainer",
        poll: float = POLL_SECONDS,
    ) -> None:
        """`field`: of the spec, which holds joinTimeoutSeconds."""
        self._poll = poll
        self._expected = expected
        self._field = field
        self._timeout = timeout
        self._read_nodes = read_nodes
        self._units: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._complete = False

    async def watch(self) -> None:
        """Return when all have joined. Raises PodsMissing."""
        began = logged = time.monotonic()
        while True:
            await self._read()
            missing = self.missing()
            now = time.monotonic()
            if not missing:
                return
            if now - began > self._timeout:
                raise PodsMissing(
                    f"{missing} have not joined Ray in {self._timeout:.0f} s ({self._field}.joinTimeoutSeconds); raise "
                    "it if nodes come later, or ask for fewer Pods"
                )
            if now - logged > LOG_SECONDS:
                logger.info("waiting for Pods: %s have not joined Ray", missing)
                logged = now
            await asyncio.sleep(self._poll)

    async def joined(self, resource: str, units: int) -> None:
        """Return when Pods with `units` of `resource` together have joined, or all of the attempt have."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._complete or self._units.get(resource, 0) >= units)

    def missing(self) -> str:
        """Pods that have not joined, in words; empty when all have."""
        lacking = {each: each.pods - self._units.get(each.resource, 0) / each.units for each in self._expected}
        return " and ".join(
            f"{ceil(pods)} of {each.pods} {each.role} Pods" for each, pods in lacking.items() if pods > 0
        )

    async def _read(self) -> None:
        nodes = await asyncio.to_thread(self._read_nodes)
        alive = [node["Resources"] for node in nodes if node["Alive"]]
        async with self._changed:
            names = {each.resource for each in self._expected} | {ENGINE_RESOURCE}
            self._units = {name: sum(int(resources.get(name, 0)) for resources in alive) for name in names}
            self._complete = self._complete or not self.missing()
            self._changed.notify_all()
