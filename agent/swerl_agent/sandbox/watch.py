"""The current state of one job's sandboxes, from one watch of Pods and one of SweSandboxes.

Guarantees:
* Two streams are open per client, namespace and job, however many claims wait.
* A waiter sees the state at its start and every later one.
* A watch that is refused (missing permission, missing CRD) fails every waiter with its error.
* The targets of the isolation check are found once and stay valid as long as the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakKeyDictionary

from swerl_api.isolation import ProbeTarget
from swerl_api.names import JOB_LABEL, SANDBOX_LABEL
from swerl_kube import KubeClient, KubeError

from .by_node import NodeCounts, sandboxes_by_node
from .errors import SandboxError
from .isolation import probe_targets

Json = dict[str, Any]
T = TypeVar("T")
GROUP_API = "swerl.dev/v1alpha1"
GROUPS = "swesandboxes"


class SandboxWatch:
    """Use it with `async with`, or get it from `shared`, which closes it with the client."""

    _shared: ClassVar[WeakKeyDictionary[KubeClient, dict[tuple[str, str], SandboxWatch]]] = WeakKeyDictionary()

    def __init__(self, client: KubeClient, namespace: str, job: str) -> None:
        self.client = client
        self.namespace = namespace
        self.job = job
        self._objects: dict[tuple[str, str], Json] = {}  # (resource, name) → newest object
        self._waiters: dict[tuple[str, str], set[asyncio.Event]] = {}
        self._failure: KubeError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._targets_lock = asyncio.Lock()
        self._targets: list[ProbeTarget] | None = None

    @classmethod
    async def shared(cls, client: KubeClient, namespace: str, job: str) -> SandboxWatch:
        """The watch of this client for `job`, started at the first call."""
        watches = cls._shared.setdefault(client, {})
        if (watch := watches.get((namespace, job))) is None:
            watch = watches[(namespace, job)] = cls(client, namespace, job)
            client.on_close(lambda: cls._end(client, namespace, job))
            await watch.__aenter__()
        return watch

    @classmethod
    async def _end(cls, client: KubeClient, namespace: str, job: str) -> None:
        await cls._shared[client].pop((namespace, job)).__aexit__(None, None, None)

    async def targets(self) -> list[ProbeTarget]:
        """Addresses that the job's sandboxes must not reach (see isolation.probe_targets)."""
        async with self._targets_lock:
            if self._targets is None:
                self._targets = await self._stack.enter_async_context(probe_targets(self.client))
            return self._targets

    async def __aenter__(self) -> Self:
        selectors = {"pods": f"{JOB_LABEL}={self.job},{SANDBOX_LABEL}", GROUPS: f"{JOB_LABEL}={self.job}"}
        apis = {"pods": "v1", GROUPS: GROUP_API}
        self._tasks = [
            asyncio.create_task(self._run_watch(apis[resource], resource, selector))
            for resource, selector in selectors.items()
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self._stack.aclose()

    def pod(self, name: str) -> Json | None:
        """The Pod as last seen; None when it does not exist."""
        return self._objects.get(("pods", name))

    def group(self, name: str) -> Json | None:
        """The SweSandbox as last seen."""
        return self._objects.get((GROUPS, name))

    def by_node(self) -> NodeCounts:
        """The job's sandboxes as last seen; empty when they cannot be watched."""
        if self._failure is not None:
            return {}
        seen: dict[str, list[Json]] = {"pods": [], GROUPS: []}
        for (resource, _), found in self._objects.items():
            seen[resource].append(found)
        return sandboxes_by_node(seen[GROUPS], seen["pods"])

    async def wait(self, pod: str, group: str, decide: Callable[[], T | None], timeout: float) -> T:
        """The first result of `decide()` but None; called at each change of Pod or group. Raises TimeoutError."""
        changed = asyncio.Event()
        keys = (("pods", pod), (GROUPS, group))
        for key in keys:
            self._waiters.setdefault(key, set()).add(changed)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    if self._failure is not None:
                        raise SandboxError(f"sandboxes of job {self.job} cannot be watched: {self._failure}")
                    if (decision := decide()) is not None:
                        return decision
                    await changed.wait()
                    changed.clear()
        finally:
            for key in keys:
                self._waiters[key].discard(changed)
                if not self._waiters[key]:
                    del self._waiters[key]

    async def _run_watch(self, api: str, resource: str, selector: str) -> None:
        try:
            async for event in self.client.watch(api, resource, self.namespace, labels=selector):
                key = (resource, event.object["metadata"]["name"])
                if event.type == "DELETED":
                    self._objects.pop(key, None)
                else:
                    self._objects[key] = event.object
                self._notify(key)
        except KubeError as error:
            self._failure = error
            for key in list(self._waiters):
                self._notify(key)

    def _notify(self, key: tuple[str, str]) -> None:
        for waiter in self._waiters.get(key, ()):
            waiter.set()
