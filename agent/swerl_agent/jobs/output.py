"""The folder of a job on its volume, read through a Pod.

Guarantees: the volume is only read. While the head Pod runs, it is read there; else a Pod of the job's own image mounts
the volume read-only, and is deleted afterwards.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from swerl_api import SweRLJobSpec
from swerl_api.names import ATTEMPT_LABEL, JOB_LABEL, OUTPUT_PATH, ROLE_DRIVER, ROLE_LABEL, job_folder
from swerl_api.pod_metadata import without_mesh
from swerl_api.pod_security import RESTRICTED, containers_user, pod_security
from swerl_kube import Json, KubeClient
from swerl_kube.exec import KILLED, STDOUT

from .errors import JobCommandError
from .pods import is_ready, pod_words

HEAD_CONTAINER, READER_CONTAINER = "ray-head", "reader"
READER_SECONDS = 4 * 3600  # after which a reader ends by itself
START_SECONDS = 180.0
POLL_SECONDS = 0.5


class OutputLost(JobCommandError):
    """The Pod ended, or the connection to it, before the script did."""


@dataclass(frozen=True)
class JobOutput:
    """The folder of one job, seen from a container."""

    client: KubeClient
    namespace: str
    pod: str
    container: str
    folder: str
    live: bool  # the container is the driver's

    async def stream(self, script: str, *arguments: str) -> AsyncIterator[bytes]:
        """Standard output of a shell script in the folder; raises JobCommandError with its stderr, OutputLost."""
        command = ["sh", "-c", f'cd "$1" && shift && {{ {script}\n}}', "sh", self.folder, *arguments]
        channel = await self.client.exec_stream(
            self.namespace, self.pod, command, container=self.container, stdin=False
        )
        errors = bytearray()
        try:
            while (data := await channel.receive()) is not None:
                if data.stream == STDOUT:
                    yield data.payload
                else:
                    errors += data.payload[:4096]
        finally:
            await channel.close()
        if channel.status is None or channel.status.code == KILLED:
            raise OutputLost(f"the connection to Pod {self.pod} was lost; run the command again")
        if channel.status.code != 0:  # None: the runtime failed before the script ended
            text = errors.decode(errors="replace").strip() or channel.status.message
            raise JobCommandError(f"{self.folder} cannot be read in Pod {self.pod}: {text}")

    async def read(self, script: str, *arguments: str) -> bytes:
        """All that `stream` gives."""
        return b"".join([chunk async for chunk in self.stream(script, *arguments)])


@asynccontextmanager
async def job_output(client: KubeClient, job: Json) -> AsyncIterator[JobOutput]:
    """The job's folder; raises JobCommandError when no Pod can read it."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    folder = f"{OUTPUT_PATH}/{job_folder(name)}"
    if head := await _running_head(client, namespace, name):
        yield JobOutput(client, namespace, head, HEAD_CONTAINER, folder, live=True)
        return
    pod = reader_pod(job)
    await client.create("pods", pod)
    try:
        await _until_ready(client, namespace, pod["metadata"]["name"])
        yield JobOutput(client, namespace, pod["metadata"]["name"], READER_CONTAINER, folder, live=False)
    finally:
        await asyncio.shield(client.delete("v1", "pods", namespace, pod["metadata"]["name"], grace_seconds=0))


async def _running_head(client: KubeClient, namespace: str, job: str) -> str | None:
    labels = f"{JOB_LABEL}={job},{ROLE_LABEL}={ROLE_DRIVER},{ATTEMPT_LABEL},ray.io/node-type=head"
    pods = await client.list("v1", "pods", namespace, labels=labels)
    running = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
    return str(running[0]["metadata"]["name"]) if running else None


def reader_pod(job: Json) -> Json:
    """A Pod that mounts the job's volume read-only and does nothing."""
    spec = SweRLJobSpec.from_stored(job["spec"])
    volume: dict[str, Any] = spec.checkpoint.volume.model_dump(by_alias=True, exclude_none=True)
    settings = spec.trainer
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": without_mesh(
            {
                "name": f"{job['metadata']['name']}-reader-{uuid.uuid4().hex[:6]}",
                "namespace": job["metadata"]["namespace"],
            }
        ),
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": READER_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(_reader_user(spec)),
            "imagePullSecrets": [{"name": secret} for secret in settings.pull_secrets],
            "nodeSelector": settings.node_selector,
            "tolerations": [each.model_dump(by_alias=True, exclude_none=True) for each in settings.tolerations],
            "volumes": [{"name": "output", **volume}],
            "containers": [
                {
                    "name": READER_CONTAINER,
                    "image": settings.image,
                    "command": ["sh", "-c", f"sleep {READER_SECONDS}"],
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}},
                    "securityContext": RESTRICTED,
                    "volumeMounts": [{"name": "output", "mountPath": OUTPUT_PATH, "readOnly": True}],
                }
            ],
        },
    }


def _reader_user(spec: SweRLJobSpec) -> int:
    """A user that may read what the job's Pods write."""
    return containers_user(spec.trainer.run_as_user, needs_root=spec.checkpoint.volume.host_path is not None)


async def _until_ready(client: KubeClient, namespace: str, pod: str) -> None:
    words = "it was not created"
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                found = await client.get("v1", "pods", namespace, pod)
                if is_ready(found):
                    return
                words = pod_words(found, "")
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as error:
        raise JobCommandError(
            f"Pod {pod}, which reads the job's volume, is not ready after {START_SECONDS:.0f} s: {words}"
        ) from error


def names_of(listing: bytes) -> Sequence[str]:
    """Lines of a listing, without empty ones."""
    return [line for line in listing.decode(errors="replace").splitlines() if line]
