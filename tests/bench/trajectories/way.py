"""What every way to a sandbox offers to the benchmark, and the Pod that all of them are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from swerl_api.names import JOB_LABEL
from swerl_kube import KubeClient
from swerl_operator.sandboxes.manifests import sandbox_pod
from swerl_operator.sandboxes.parsed import parse_group
from swerl_operator.sandboxes.settings import SandboxSettings

from tests.bench.trajectories.pods import PodWatch

Json = dict[str, Any]
JOB = "bench"
TIMEOUT = 120.0  # seconds of a command
RESOURCES = {
    "requests": {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "16Mi"},
    "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "1Gi"},
}


@dataclass(frozen=True)
class Place:
    """Where sandboxes are made."""

    client: KubeClient
    kubeconfig: str
    namespace: str
    image: str  # of all sandboxes
    pods: PodWatch
    folder: Path  # for logs


class Way(Protocol):
    """One way to a sandbox."""

    async def prepare(self, names: Sequence[str]) -> None:
        """What this way has ready before the trajectories of these names start together; it is not timed."""
        ...

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        """Request a sandbox, run the commands one after the other, return when the sandbox is gone.

        Raises RuntimeError when a command failed.
        """
        ...


def spec(image: str) -> Json:
    """The SweSandbox of one sandbox."""
    return {"image": image, "replicas": 1, "workdir": "/", "scrubGit": False, "resources": RESOURCES}


def bare_pod(image: str, namespace: str, name: str) -> Json:
    """The Pod of such a SweSandbox, without its owner and labels."""
    metadata = {"namespace": namespace, "name": name, "uid": "", "labels": {JOB_LABEL: JOB}}
    pod = sandbox_pod(parse_group({"metadata": metadata, "spec": spec(image)}), 0, SandboxSettings())
    return pod | {"metadata": {"name": name}}
