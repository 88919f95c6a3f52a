"""The whole plane as one operator process runs it, on the API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry
from swerl_operator.metrics import Metrics
from swerl_operator.sandboxes.api import Cluster
from swerl_operator.sandboxes.informer import Feed
from swerl_operator.sandboxes.isolation_check import Proofs
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.network_policy import DenyAll
from swerl_operator.sandboxes.reconciler import Controller
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.store import Store

LIMIT = 8
SETTINGS = SandboxSettings(
    wave=3,
    slow_start=0.05,
    admitted_delay=0.0,
    waiting_delay=0.05,
    counts_delay=0.05,
    completed_delay=0.0,
    write_interval=0.0,
    finished_ttl=0.2,
    resync=0.3,
    lease_poll=0.05,
    lease_missing=0.0,
)


class Operator:
    """One operator process: ends, or dies without a word, when told to."""

    def __init__(self, world: Any, settings: SandboxSettings = SETTINGS) -> None:
        self.leads = True
        store, self.registry = Store(), CollectorRegistry()
        metrics = SandboxMetrics(self.registry, store)
        cluster = Cluster(world, metrics)
        self.controller = Controller(cluster, DenyAll(world, settings), store, settings, metrics, Metrics())
        proofs = Proofs(cluster, self.controller, Metrics(), [("192.0.2.9", 8080)])
        self.feed = Feed(cluster, self.controller, proofs, settings, (), lambda: self.leads)
        self.tasks = [asyncio.create_task(self.feed.run()), asyncio.create_task(proofs.run())]

    async def die(self) -> None:
        self.leads = False
        await self.end()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def deliver(self, kind: str, event: str, body: dict[str, Any]) -> None:
        if kind == "sandbox":
            self.feed.group_event(event, body)
        else:
            self.feed.pod_event(event, body)


def spent(world: Any, name: str) -> bool:
    """Whether the written status covers all Pods: what a client waits for is written by then."""
    group = next((g for g in world.sandboxes.values() if name.startswith(f"swesb-{g['metadata']['name']}-")), None)
    return group is None or group.get("status", {}).get("replicas", 0) == group["spec"]["replicas"]


async def settle(
    server: Any, operator: Operator, done: Callable[[], bool], *, ready: bool = True, deliver: bool = True
) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    while not done():
        assert asyncio.get_running_loop().time() < deadline, server.sandboxes
        for name, body in list(server.pods.items()):
            if ready and not body.get("status"):
                server.set_ready(name)
        while server.events and deliver:
            operator.deliver(*server.events.pop(0))
        await asyncio.sleep(0.005)
