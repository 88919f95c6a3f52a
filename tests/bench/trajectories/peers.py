"""Other ways to a sandbox in a Pod: bare Pods, agent-sandbox's warm pool, SWE-ReX's server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path

from swerex.runtime.abstract import Command
from swerex.runtime.remote import RemoteRuntime
from swerl_kube import Forbidden

from tests.bench.agent_sandbox import WarmPool
from tests.bench.exec_peers.clients import KubernetesPython, PodTargets
from tests.bench.exec_peers.rex import FOLDER, PORT, until_up
from tests.bench.trajectories.commands import check
from tests.bench.trajectories.way import TIMEOUT, Json, Place, bare_pod


class OneShotExec:
    """`kubernetes.stream.stream` of each command."""

    def __init__(self, place: Place) -> None:
        self._client = KubernetesPython(PodTargets(place.kubeconfig, place.namespace, (), ()))

    async def run(self, pod: str, commands: Sequence[str]) -> None:
        for command in commands:
            answer = await self._client.run_in(pod, ["sh", "-c", command], TIMEOUT)
            check(command, answer.exit_code, len(answer.stdout))


class BarePods:
    """A Pod of our manifest, created and deleted by its client, with one-shot exec."""

    def __init__(self, place: Place) -> None:
        self._place, self._exec = place, OneShotExec(place)

    async def prepare(self, names: Sequence[str]) -> None:
        """Nothing is prepared."""

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        await create(self._place, bare_pod(self._place.image, self._place.namespace, name))
        await self._place.pods.ready(name)
        await self._exec.run(name, commands)
        await remove(self._place, name)


class AgentSandbox:
    """A claim on a warm pool that is full when the trajectories start, with one-shot exec."""

    def __init__(self, place: Place, pool: WarmPool) -> None:
        self._place, self._pool, self._exec = place, pool, OneShotExec(place)

    async def prepare(self, names: Sequence[str]) -> None:
        await self._pool.full()

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        _, pod = await self._pool.claim(name)
        await self._exec.run(pod, commands)
        await self._pool.release(name)
        await self._place.pods.gone(pod)


class SweRex:
    """A Pod whose first process is SWE-ReX's server; its packages are a folder of the node."""

    def __init__(self, place: Place, packages: Path) -> None:
        self._place, self._packages = place, packages

    async def prepare(self, names: Sequence[str]) -> None:
        """Nothing is prepared."""

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        token = secrets.token_hex(8)
        await create(self._place, self._pod(name, token))
        host = (await self._place.pods.ready(name))["status"]["podIP"]
        await until_up(f"http://{host}:{PORT}", token, pause=0.05)
        runtime = RemoteRuntime(auth_token=token, host=f"http://{host}", port=PORT)
        for command in commands:
            done = await runtime.execute(Command(command=command, shell=True, timeout=TIMEOUT))
            check(command, done.exit_code, len(done.stdout))
        await remove(self._place, name)

    def _pod(self, name: str, token: str) -> Json:
        pod = bare_pod(self._place.image, self._place.namespace, name)
        [container] = pod["spec"]["containers"]
        server = ["python3", "-m", "swerex", "--host", "0.0.0.0", "--port", str(PORT), "--auth-token", token]
        container["command"] = server
        container["env"] = [{"name": "PYTHONPATH", "value": FOLDER}]
        container["volumeMounts"] = [{"name": "packages", "mountPath": FOLDER, "readOnly": True}]
        pod["spec"]["volumes"] = [{"name": "packages", "hostPath": {"path": str(self._packages)}}]
        return pod


async def create(place: Place, pod: Json) -> None:
    """Create the Pod; a new namespace's service account takes a moment to exist."""
    async with asyncio.timeout(30):
        while True:
            try:
                await place.client.create("pods", pod, namespace=place.namespace)
                return
            except Forbidden:
                await asyncio.sleep(0.2)


async def remove(place: Place, name: str) -> None:
    """Delete the Pod without a grace period, as ours are; returns when it is gone."""
    await place.client.delete("v1", "pods", place.namespace, name, grace_seconds=0)
    await place.pods.gone(name)
