"""A real operator process serving one namespace of a real cluster, and what a user does to it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from swerl_kube import KubeClient, Unavailable, resource_path
from swerl_operator.kube import operator_client
from swerl_operator.metrics import Metrics

from tests.control_plane.operator_process import Operator

Body = dict[str, Any]
API = "swerl.dev/v1alpha1"
IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")


class User:
    """What a driver does, by raw API calls; waits are bounded and say what was last seen."""

    def __init__(self, api: KubeClient, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self._declared: set[str] = set()

    async def declare(self, name: str, *, job: str = "test", labels: dict[str, str] | None = None, **spec: Any) -> Body:
        body = {
            "apiVersion": API,
            "kind": "SweSandbox",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"swerl.dev/job": job} | (labels or {})},
            "spec": {
                "image": IMAGE,
                "workdir": "/",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
            }
            | spec,
        }
        self._declared.add(name)
        return await self.api.create("swesandboxes", body)

    async def sandbox(self, name: str) -> Body | None:
        return await self.api.find(API, "swesandboxes", self.namespace, name)

    async def status(self, name: str) -> Body:
        return dict((await self.sandbox(name) or {}).get("status") or {})

    async def pods(self, name: str) -> dict[str, Body]:
        url = f"/api/v1/namespaces/{self.namespace}/pods"
        answer = await self.api.request("GET", url, query={"labelSelector": f"swerl.dev/sandbox={name}"})
        return {pod["metadata"]["name"]: pod for pod in answer["items"]}

    async def events(self, sandbox: str) -> list[Body]:
        field_selector = f"involvedObject.kind=SweSandbox,involvedObject.name={sandbox}"
        return await self.api.list("v1", "events", self.namespace, fields=field_selector)

    async def policies(self) -> list[Body]:
        return await self.api.list("networking.k8s.io/v1", "networkpolicies", self.namespace)

    async def release(self, pod: str) -> None:
        await self.api.delete("v1", "pods", self.namespace, pod, grace_seconds=0)

    async def delete(self, name: str) -> None:
        await self.api.delete(API, "swesandboxes", self.namespace, name)

    async def clear(self) -> None:
        """Remove the groups that a test has left, as one that failed does: it may be tried again."""
        for name in self._declared:
            if await self.sandbox(name) is not None:
                await self.delete(name)
                await self.until(lambda name=name: self.pods(name), lambda pods: not pods, 60)  # type: ignore[misc]

    async def renew(self, lease: str, duration: int) -> None:
        """Create or renew a Lease as a driver does."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "driver", "leaseDurationSeconds": duration, "renewTime": stamp}
        group = "coordination.k8s.io/v1"
        if await self.api.find(group, "leases", self.namespace, lease) is None:
            meta = {"name": lease, "namespace": self.namespace}
            await self.api.create("leases", {"apiVersion": group, "kind": "Lease", "metadata": meta, "spec": spec})
        else:
            await self.api.patch(group, "leases", self.namespace, lease, {"spec": spec})

    async def until(self, read: Callable[[], Awaitable[Any]], done: Callable[[Any], bool], seconds: float) -> Any:
        """What `seen` returns once `done` accepts it; fails after `seconds`, showing what was seen last."""
        deadline = time.monotonic() + seconds
        while True:
            value = await read()
            if done(value):
                return value
            assert time.monotonic() < deadline, f"after {seconds} s still {value}"
            await asyncio.sleep(0.2)

    async def phase(self, name: str, phase: str, seconds: float = 180) -> Body:
        """The status, once its phase is `phase`."""
        ends = {phase, "Finished", "Failed"}
        found: Body = await self.until(lambda: self.status(name), lambda s: s.get("phase") in ends, seconds)
        assert found["phase"] == phase, found
        return found


async def versions(api: KubeClient, url: str, version: int) -> AsyncIterator[Body]:
    """Every version of each object of a listing after `version`, also where a stream ends or breaks in between.

    Unlike the client's own watch it never lists again, which would skip short-lived objects: it raises Expired.
    """
    while True:
        with suppress(Unavailable):
            async for _, body in api.stream(url, version):
                version = int(body["metadata"]["resourceVersion"])
                if "uid" in body["metadata"]:  # a bookmark has none
                    yield body
        await asyncio.sleep(0.2)


class PodUidRecorder:
    """Every UID that each Pod name of the namespace ever had, from a watch."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.uids: dict[str, set[str]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> PodUidRecorder:
        """Follow all Pods made from now on."""
        pods = resource_path("v1", "pods", self.user.namespace)
        listed = await self.user.api.request("GET", pods)
        self._task = asyncio.create_task(self._run(pods, int(listed["metadata"]["resourceVersion"])))
        return self

    async def _run(self, pods: str, version: int) -> None:
        async for pod in versions(self.user.api, pods, version):
            self.uids.setdefault(pod["metadata"]["name"], set()).add(pod["metadata"]["uid"])

    async def close(self, groups: list[str]) -> dict[str, int]:
        """How often each Pod of the groups was made."""
        assert self._task is not None and not self._task.done(), "the watch has ended"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        of_groups = tuple(f"swesb-{group}-" for group in groups)
        return {name: len(uids) for name, uids in self.uids.items() if name.startswith(of_groups)}


async def inside(kubeconfig: str, namespace: str, pod: str, *command: str) -> str:
    """Output of a command in a Pod."""
    words = ["kubectl", "--kubeconfig", kubeconfig, "-n", namespace, "exec", pod, "--", *command]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return output.decode()


def each_once(groups: list[str], replicas: int) -> dict[str, int]:
    """What a census of `groups` says when no Pod was made twice."""
    return {f"swesb-{group}-{ordinal}": 1 for group in groups for ordinal in range(replicas)}


def condition(status: Body, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    found = next(c for c in status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found.get("message", "")


@pytest.fixture(scope="session")
def reading() -> Callable[[Body, str], tuple[str, str, str]]:
    return condition


@pytest.fixture
async def user(
    operator: Operator, kubeconfig: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[User]:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    async with operator_client(Metrics()) as api:
        user = User(api, namespace)
        yield user
        await user.clear()


@pytest.fixture
async def pod_uids(user: User) -> PodUidRecorder:
    """A count of the Pods made from the test's start on."""
    return await PodUidRecorder(user).start()
