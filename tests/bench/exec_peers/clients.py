"""The ways into a Pod that are compared, each as its own documentation shows it, behind one call.

Guarantees: an answer is what the client gave, nothing is repaired; a client that cannot do a thing raises or answers
wrongly, and the correctness matrix says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

STDOUT, STDERR, ERROR = 1, 2, 3  # channels of the exec protocol


@dataclass(frozen=True)
class PodTargets:
    """Where commands run."""

    kubeconfig: str
    namespace: str
    pods: tuple[str, ...]
    uids: tuple[str, ...]
    rex: tuple[str, ...] = ()  # http://address:port of a SWE-ReX server in each Pod
    rex_token: str = ""

    def pod(self, slot: int) -> str:
        return self.pods[slot % len(self.pods)]


@dataclass(frozen=True)
class CommandOutput:
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    reconnects: int | None = None  # streams that were lost and replaced meanwhile; None: the client does not report it


class Client(Protocol):
    """One way into a Pod. `slot` numbers the callers that run at the same time."""

    async def open(self, slots: int) -> None:
        """Make everything ready that may stay open between commands."""
        ...

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput: ...

    async def close(self) -> None: ...


class Swerl:
    """`Session.run`: one stream per slot, kept open; no login profile, as with the others."""

    login = False

    def __init__(self, place: PodTargets) -> None:
        self.place = place
        self._stack = AsyncExitStack()
        self.sessions: list[Any] = []

    async def open(self, slots: int) -> None:
        from swerl_agent.sandbox import PodConnector, Session
        from swerl_kube import KubeClient

        place = self.place
        if not self.sessions:
            self._client = await self._stack.enter_async_context(KubeClient.from_environment(place.kubeconfig))
        fresh = []
        for slot in range(len(self.sessions), slots):
            index = slot % len(place.pods)
            connector = PodConnector(self._client, place.namespace, place.pods[index], uid=place.uids[index])
            fresh.append(await self._stack.enter_async_context(Session(connector, login=self.login)))
        for start in range(0, len(fresh), 16):  # a node that starts hundreds of shells at once does nothing else
            await asyncio.gather(*(session.open() for session in fresh[start : start + 16]))
        self.sessions += fresh

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        result = await self.sessions[slot].run(shlex.join(command), timeout=timeout, max_output=64 << 20)
        exit_code = None if result.timed_out else result.exit_code
        return CommandOutput(exit_code, result.stdout, result.stderr, reconnects=result.retries)

    async def close(self) -> None:
        await self._stack.aclose()


class SwerlWithLogin(Swerl):
    """The same as it is by default: each command reads the login profile."""

    login = True


class Kubectl:
    """`kubectl exec`: a process per command."""

    def __init__(self, place: PodTargets) -> None:
        self._place = place

    async def open(self, slots: int) -> None: ...

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        place, pipe = self._place, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "kubectl", "--kubeconfig", place.kubeconfig, "-n", place.namespace, "exec", place.pod(slot), "--", *command,
            stdout=pipe, stderr=pipe,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return CommandOutput(process.returncode, out, err)

    async def close(self) -> None: ...


class KubernetesPython:
    """`kubernetes.stream.stream`, one WebSocket and one thread per command (the pattern of R2E-Gym)."""

    def __init__(self, place: PodTargets) -> None:
        from kubernetes import config

        self._place = place
        config.load_kube_config(place.kubeconfig)
        self._local = threading.local()
        self._threads = ThreadPoolExecutor(1024)

    async def open(self, slots: int) -> None: ...

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        return await self.run_in(self._place.pod(slot), command, timeout)

    async def run_in(self, pod: str, command: Sequence[str], timeout: float) -> CommandOutput:
        """In a Pod of the place's namespace, whether the place names it or not."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, pod, list(command), timeout)

    def _run(self, pod: str, command: list[str], timeout: float) -> CommandOutput:
        from kubernetes import client
        from kubernetes.stream import stream

        if not hasattr(self._local, "core"):  # stream() changes its client while it runs: one per thread
            self._local.core = client.CoreV1Api(client.ApiClient())
        answer = stream(
            self._local.core.connect_get_namespaced_pod_exec, pod, self._place.namespace, command=command,
            stderr=True, stdin=False, stdout=True, tty=False, _preload_content=False,
        )  # fmt: skip
        try:
            answer.run_forever(timeout=timeout)
            out, err = answer.read_stdout(timeout=0) or "", answer.read_stderr(timeout=0) or ""
            return CommandOutput(answer.returncode, out.encode(), err.encode())
        finally:
            answer.close()

    async def close(self) -> None:
        self._threads.shutdown(wait=False)


class KubernetesPythonWithLogin(KubernetesPython):
    """The same for `bash -lc` with the command: what a command in a login shell costs without a session."""

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        return await super().run(slot, ("bash", "-lc", shlex.join(command)), timeout)


class KubernetesAsyncio:
    """`kubernetes_asyncio` with its `WsApiClient`, one WebSocket per command."""

    def __init__(self, place: PodTargets) -> None:
        self._place = place
        self._core: Any = None

    async def open(self, slots: int) -> None:
        if self._core is None:
            from kubernetes_asyncio import client, config
            from kubernetes_asyncio.stream import WsApiClient

            await config.load_kube_config(self._place.kubeconfig)
            self._core = client.CoreV1Api(api_client=WsApiClient())

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        from kubernetes_asyncio.stream import WsApiClient

        outputs, code = {STDOUT: bytearray(), STDERR: bytearray()}, None
        async with asyncio.timeout(timeout):
            opened = await self._core.connect_get_namespaced_pod_exec(
                self._place.pod(slot), self._place.namespace, command=list(command),
                stderr=True, stdin=False, stdout=True, tty=False, _preload_content=False,
            )  # fmt: skip
            async with opened as socket:
                async for message in socket:
                    channel, payload = message.data[0], message.data[1:]
                    if channel == ERROR:
                        code = WsApiClient.parse_error_data(payload)
                    elif channel in outputs:
                        outputs[channel] += payload
        return CommandOutput(code, bytes(outputs[STDOUT]), bytes(outputs[STDERR]))

    async def close(self) -> None:
        if self._core is not None:
            await self._core.api_client.close()


class Kr8s:
    """`kr8s`: `Pod.exec`, one WebSocket per command."""

    def __init__(self, place: PodTargets) -> None:
        self._place = place
        self._pods: dict[str, Any] = {}

    async def open(self, slots: int) -> None:
        if not self._pods:
            import kr8s.asyncio
            from kr8s.asyncio.objects import Pod

            api = await kr8s.asyncio.api(kubeconfig=self._place.kubeconfig)
            for name in self._place.pods:
                self._pods[name] = await Pod.get(name, namespace=self._place.namespace, api=api)

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        pod = self._pods[self._place.pod(slot)]
        async with asyncio.timeout(timeout):
            done = await pod.exec(list(command), check=False, timeout=timeout)
        return CommandOutput(done.returncode, done.stdout, done.stderr)

    async def close(self) -> None: ...


class SweRex:
    """The server of SWE-ReX in each Pod: one HTTP request per command."""

    def __init__(self, place: PodTargets) -> None:
        self._place = place
        self._runtimes: list[Any] = []

    async def open(self, slots: int) -> None:
        from swerex.runtime.remote import RemoteRuntime

        for address in self._place.rex[len(self._runtimes) :]:
            host, _, port = address.rpartition(":")
            self._runtimes.append(RemoteRuntime(auth_token=self._place.rex_token, host=host, port=int(port)))

    async def run(self, slot: int, command: Sequence[str], timeout: float) -> CommandOutput:
        from swerex.runtime.abstract import Command

        runtime = self._runtimes[slot % len(self._runtimes)]
        done = await runtime.execute(Command(command=list(command), shell=False, timeout=timeout))
        return CommandOutput(done.exit_code, done.stdout.encode(), done.stderr.encode())

    async def close(self) -> None: ...


CLIENTS: dict[str, Callable[[PodTargets], Client]] = {
    "ours": Swerl,
    "ours-login": SwerlWithLogin,
    "kubernetes-python": KubernetesPython,
    "kubernetes-python-login": KubernetesPythonWithLogin,
    "kubectl": Kubectl,
    "kubernetes_asyncio": KubernetesAsyncio,
    "kr8s": Kr8s,
    "swe-rex": SweRex,
}
# kubectl: a process of 60 MB for every command
MOST_SLOTS = {"kubectl": 64, "ours-login": 64, "kubernetes-python-login": 64}


def make_client(name: str, place: str) -> Client:
    """The client of that name, for a place as JSON."""
    fields = json.loads(place)
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    os.environ["KUBECONFIG"] = fields["kubeconfig"]
    return CLIENTS[name](PodTargets(**(fields | lists)))
