"""The peer of claims: the agent-sandbox controller with a template, a warm pool and claims on it.

Guarantees: the controller is built from its pinned module and runs as its own recipe says, out of the cluster, without
the webhook that converts its older API; controller, kinds and namespace's objects are gone afterwards.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from swerl_kube import KubeClient

from cluster import build
from cluster.layout import swerl_home
from demo.cluster import DemoCluster
from tests.ports import free_port

SANDBOX_API, EXTENSIONS = "agents.x-k8s.io/v1beta1", "extensions.agents.x-k8s.io/v1beta1"
POD_NAME = "agents.x-k8s.io/pod-name"  # of a sandbox that took its Pod over; else it has the sandbox's name
TEMPLATE, POOL, CLAIMS = "bench", "bench", "sandboxclaims"
PATIENCE = 300.0  # seconds


@contextmanager
def controller(cluster: DemoCluster, folder: Path) -> Iterator[None]:
    """The kinds and the controller; its log goes to `folder`."""
    programs = build.build(swerl_home(), "agent-sandbox")
    kinds = json.dumps({"apiVersion": "v1", "kind": "List", "items": _kinds(programs / "crds")})
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=kinds)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "-", stdin=kinds)
    command = [
        str(programs / "agent-sandbox-controller"), f"--kubeconfig={cluster.kubeconfig}", "--extensions",
        "--leader-elect=false", "--enable-webhook=false", f"--metrics-bind-address=127.0.0.1:{free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{free_port()}",
    ]  # fmt: skip
    with (folder / "agent-sandbox.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=kinds)


def _kinds(folder: Path) -> list[dict[str, Any]]:
    """The CRDs with their newest version alone, which needs no conversion."""
    found = []
    for path in sorted(folder.glob("*.yaml")):
        for kind in filter(None, yaml.safe_load_all(path.read_text())):
            spec = kind["spec"]
            spec["versions"] = [version for version in spec["versions"] if version["name"] == "v1beta1"]
            spec.pop("conversion", None)
            kind["metadata"].pop("annotations", None)
            found.append(kind)
    return found


class WarmPool:
    """A warm pool of `size` in `namespace`, and claims on it."""

    def __init__(self, client: KubeClient, namespace: str, size: int) -> None:
        self._client, self._namespace, self._size = client, namespace, size

    async def fill(self, container: dict[str, Any]) -> None:
        """Declare template and pool; returns when the pool is full."""
        pod = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        template = {"networkPolicyManagement": "Unmanaged", "podTemplate": {"spec": pod}}
        await self._create("sandboxtemplates", "SandboxTemplate", TEMPLATE, template)
        pool = {"replicas": self._size, "sandboxTemplateRef": {"name": TEMPLATE}}
        await self._create("sandboxwarmpools", "SandboxWarmPool", POOL, pool)
        await self.full()

    async def full(self) -> None:
        """Wait until as many as declared are ready."""
        async with asyncio.timeout(PATIENCE):
            while True:
                pool = await self._client.get(EXTENSIONS, "sandboxwarmpools", self._namespace, POOL)
                if (pool.get("status") or {}).get("readyReplicas", 0) >= self._size:
                    return
                await asyncio.sleep(0.2)

    async def drain(self) -> None:
        """Remove the pool and wait until its Pods are gone."""
        await self._client.delete(EXTENSIONS, "sandboxwarmpools", self._namespace, POOL)
        async with asyncio.timeout(PATIENCE):
            while True:
                if not await self._client.list("v1", "pods", self._namespace):
                    return
                await asyncio.sleep(0.2)

    async def claim(self, name: str) -> tuple[float, str]:
        """Seconds from asking for a claim until its condition says Ready; the Pod that it got."""
        started = time.perf_counter()
        await self._create(CLAIMS, "SandboxClaim", name, {"warmPoolRef": {"name": POOL}})
        async with asyncio.timeout(PATIENCE):
            events = self._client.watch(EXTENSIONS, CLAIMS, self._namespace, fields=f"metadata.name={name}")
            async for event in events:
                conditions = (event.object.get("status") or {}).get("conditions") or []
                if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                    took = time.perf_counter() - started
                    return took, await self._pod(event.object["status"]["sandbox"]["name"])
        raise AssertionError("a watch has no end")

    async def _pod(self, sandbox: str) -> str:
        found = await self._client.get(SANDBOX_API, "sandboxes", self._namespace, sandbox)
        return str(found["metadata"].get("annotations", {}).get(POD_NAME, sandbox))

    async def release(self, name: str) -> None:
        """Delete the claim."""
        await self._client.delete(EXTENSIONS, CLAIMS, self._namespace, name)

    async def _create(self, resource: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": EXTENSIONS, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self._client.create(resource, body, namespace=self._namespace)
