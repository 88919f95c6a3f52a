"""The sandbox controller of one operator process, on the API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry
from swerl_operator.metrics import Metrics
from swerl_operator.sandboxes.api import SandboxApi
from swerl_operator.sandboxes.informer import SandboxInformer
from swerl_operator.sandboxes.isolation_check import IsolationChecker
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.network_policy import SandboxPolicies
from swerl_operator.sandboxes.reconciler import SandboxReconciler
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.store import GroupStore

LIMIT = 8
SETTINGS = SandboxSettings(
    start_window=3,
    slot_timeout=0.05,
    admitted_delay=0.0,
    waiting_delay=0.05,
    counts_delay=0.05,
    completed_delay=0.0,
    write_interval=0.0,
    finished_ttl=0.2,
    resync=0.3,
    lease_poll=0.05,
    missing_lease_timeout=0.0,
)
# Retries without the delays of a real cluster.
QUICK: dict[str, Any] = {
    "list_retry": 0.01,
    "watch_reopen": 0.01,
    "watch_retry": 0.01,
    "lease_check_period": 0.02,
    "isolation_retry": 0.02,
    "refused_retry": 0.02,
    "reconcile_retry": (0.01, 0.05),
}


class InMemoryOperator:
    """One operator process that the test ends in order or kills."""

    def __init__(self, server: Any, settings: SandboxSettings = SETTINGS) -> None:
        self.is_leader = True
        settings = replace(settings, **QUICK)
        store, self.registry = GroupStore(), CollectorRegistry()
        metrics = SandboxMetrics(self.registry, store)
        api = SandboxApi(server, metrics)
        policies = SandboxPolicies(server, settings)
        self.reconciler = SandboxReconciler(api, policies, store, settings, metrics, Metrics())
        checker = IsolationChecker(api, self.reconciler, settings, Metrics(), [("192.0.2.9", 8080)])
        self.informer = SandboxInformer(api, self.reconciler, checker, settings, (), lambda: self.is_leader)
        self.tasks = [asyncio.create_task(self.informer.run()), asyncio.create_task(checker.run())]

    async def kill(self) -> None:
        self.is_leader = False
        await self.stop()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def deliver(self, kind: str, event: str, body: dict[str, Any]) -> None:
        if kind == "sandbox":
            self.informer.on_group_event(event, body)
        else:
            self.informer.on_pod_event(event, body)


def status_is_complete(api_server: Any, name: str) -> bool:
    """Whether the written status covers all Pods: what a client waits for is written by then."""
    group = next((g for g in api_server.sandboxes.values() if name.startswith(f"swesb-{g['metadata']['name']}-")), None)
    return group is None or group.get("status", {}).get("replicas", 0) == group["spec"]["replicas"]


async def run_until(
    server: Any, operator: InMemoryOperator, done: Callable[[], bool], *, ready: bool = True, deliver: bool = True
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
