"""A real operator process serving one namespace of a real cluster, and what a user does to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from swerl_operator.kube import Kube
from swerl_operator.metrics import Metrics

Body = dict[str, Any]
API = "swerl.dev/v1alpha1"
IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
REPOSITORY = Path(__file__).parents[3]


class Operator:
    """`python -m swerl_operator` for one namespace; a new process takes over from a killed one at once."""

    def __init__(self, namespace: str, kubeconfig: str, log: Path) -> None:
        self.namespace, self.kubeconfig, self.log = namespace, kubeconfig, log
        self.health, self.metrics = _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = {
            "namespaces": self.namespace,
            "lease-namespace": self.namespace,
            "identity": "test",
            "health-port": str(self.health),
            "metrics-port": str(self.metrics),
        }
        command = [sys.executable, "-m", "swerl_operator", *(f"--{name}={value}" for name, value in options.items())]
        with self.log.open("ab") as log:
            environment = os.environ | {"KUBECONFIG": self.kubeconfig}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 60
        while self._text(self.health, "readyz") != "leading\n":
            assert self._process.poll() is None, f"the operator ended:\n{self.log.read_text()[-4000:]}"
            assert time.monotonic() < deadline, f"the operator is not ready:\n{self.log.read_text()[-4000:]}"
            time.sleep(0.2)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=30)
            self._process = None

    def metric(self, name: str) -> float:
        """Value of a metric with its labels as written, e.g. `x_total{verb="a"}`; 0 when absent."""
        for line in self._text(self.metrics, "metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def _text(self, port: int, page: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


class User:
    """What a driver does, by raw API calls; waits are bounded and say what was last seen."""

    def __init__(self, api: Kube, namespace: str) -> None:
        self.api, self.namespace = api, namespace

    async def declare(self, name: str, *, job: str = "test", **spec: Any) -> Body:
        body = {
            "apiVersion": API,
            "kind": "SweSandbox",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"swerl.dev/job": job}},
            "spec": {
                "image": IMAGE,
                "workdir": "/",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
            }
            | spec,
        }
        return await self.api.create("swesandboxes", body)

    async def sandbox(self, name: str) -> Body | None:
        return await self.api.find(API, "swesandboxes", self.namespace, name)

    async def status(self, name: str) -> Body:
        return dict((await self.sandbox(name) or {}).get("status") or {})

    async def pods(self, name: str) -> dict[str, Body]:
        url = f"/api/v1/namespaces/{self.namespace}/pods"
        answer = await self.api.request("GET", url, query={"labelSelector": f"swerl.dev/sandbox={name}"})
        return {pod["metadata"]["name"]: pod for pod in answer["items"]}

    async def policies(self) -> list[Body]:
        return await self.api.list("networking.k8s.io/v1", "networkpolicies", self.namespace)

    async def release(self, pod: str) -> None:
        await self.api.delete("v1", "pods", self.namespace, pod, grace=0)

    async def delete(self, name: str) -> None:
        await self.api.delete(API, "swesandboxes", self.namespace, name)

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

    async def until(self, seen: Callable[[], Awaitable[Any]], done: Callable[[Any], bool], seconds: float) -> Any:
        """What `seen` returns once `done` accepts it; fails after `seconds`, showing what was seen last."""
        deadline = time.monotonic() + seconds
        while True:
            value = await seen()
            if done(value):
                return value
            assert time.monotonic() < deadline, f"after {seconds} s still {value}"
            await asyncio.sleep(0.2)

    async def phase(self, name: str, phase: str, seconds: float = 90) -> Body:
        """The status, once its phase is `phase`."""
        ends = {phase, "Finished", "Failed"}
        found: Body = await self.until(lambda: self.status(name), lambda s: s.get("phase") in ends, seconds)
        assert found["phase"] == phase, found
        return found


def condition(status: Body, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    found = next(c for c in status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found.get("message", "")


@pytest.fixture(scope="session")
def reading() -> Callable[[Body, str], tuple[str, str, str]]:
    return condition


@pytest.fixture(scope="session")
def crds(kubeconfig: str) -> None:
    """The CRDs of this checkout, applied."""
    files = [argument for path in sorted((REPOSITORY / "crds").glob("*.yaml")) for argument in ("-f", str(path))]
    command = ["kubectl", "--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts", *files]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def operator(
    kubeconfig: str, namespace: str, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    running = Operator(namespace, kubeconfig, tmp_path_factory.mktemp("operator") / "log")
    running.start()
    yield running
    running.kill(signal.SIGTERM)


@pytest.fixture
async def user(operator: Operator, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[User]:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    async with Kube(Metrics()) as api:
        yield User(api, operator.namespace)
