"""Pods to run commands in, all alike, in a namespace of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from swerl_agent.sandbox.pod import ready
from swerl_kube import Forbidden, KubeClient

from tests.bench.exec_peers.clients import PodTargets

IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
READY_SECONDS = 300
MIB = "/var/tmp/mib"  # a file of that size in each Pod
SMALL = {"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": "512Mi"}}


@asynccontextmanager
async def pods(client: KubeClient, kubeconfig: str, count: int) -> AsyncIterator[PodTargets]:
    """`count` ready Pods, removed afterwards."""
    namespace = f"bench-sandbox-{os.urandom(3).hex()}"
    await client.create("namespaces", {"apiVersion": "v1", "metadata": {"name": namespace}})
    try:
        names = tuple(f"swesb-bench-{number}" for number in range(count))
        uids = tuple([await _make(client, namespace, name) for name in names])
        async with asyncio.timeout(READY_SECONDS):
            for name in names:
                await _until_ready(client, namespace, name)
        yield PodTargets(kubeconfig, namespace, names, uids)
    finally:
        await client.delete("v1", "namespaces", None, namespace)


async def _until_ready(client: KubeClient, namespace: str, name: str) -> None:
    while not ready(await client.get("v1", "pods", namespace, name)):  # noqa: ASYNC110
        await asyncio.sleep(0.5)


async def _make(client: KubeClient, namespace: str, name: str) -> str:
    """The Pod's uid."""
    idle = f"head -c 1048576 /dev/zero | tr '\\0' x >{MIB}; exec sleep 36000"
    container = {"name": "sandbox", "image": IMAGE, "command": ["sh", "-c", idle], "resources": SMALL}
    spec = {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    async with asyncio.timeout(30):
        while True:
            try:
                metadata = {"name": name, "labels": {"swerl.dev/role": "sandbox"}}
                body = {"apiVersion": "v1", "metadata": metadata, "spec": spec}
                made = await client.create("pods", body, namespace=namespace)
                return str(made["metadata"]["uid"])
            except Forbidden:  # the namespace's service account takes a moment to exist
                await asyncio.sleep(0.2)
