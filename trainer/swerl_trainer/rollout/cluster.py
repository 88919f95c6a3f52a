"""The Kubernetes side of a worker: SweSandbox groups and grading Jobs of one attempt."""

from __future__ import annotations

from typing import Any

from swerl_agent.grading import VERDICTS, Grader
from swerl_agent.sandbox import NodeCounts, SandboxGroup, SandboxWatch, Session
from swerl_agent.sandbox.spec import group_spec, queue_labels
from swerl_agent.tasks import Task
from swerl_api import API_VERSION
from swerl_kube import KubeClient
from swerl_trainer.job import Job

READY_TIMEOUT = 24 * 3600.0  # seconds; a sandbox may wait for room in the cluster, and its own failure is an error


class KubernetesSandboxes:
    """Creates SweSandboxes whose lifetime is bound to the driver's Lease."""

    def __init__(self, client: KubeClient, job: Job) -> None:
        self._client = client
        self._job = job
        self._watch: SandboxWatch | None = None
        self._alive: dict[str, int] = {}  # SweSandbox -> its replicas

    async def declare(self, name: str, task: Task, replicas: int) -> CountedGroup:
        """Create one SweSandbox."""
        self._watch = await SandboxWatch.shared(self._client, self._job.namespace, self._job.name)
        group = await SandboxGroup.declare(
            self._client,
            name=name,
            spec=group_spec(
                self._job.spec.sandbox,
                image=task.image,
                task_id=task.instance_id,
                workdir=task.workdir_or(self._job.spec.sandbox.workdir),
                replicas=replicas,
                owner=self._job.lease,
            ),
            labels=self._job.labels | queue_labels(self._job.spec.sandbox),
            owner_ref=owner_reference(self._job),
            namespace=self._job.namespace,
        )
        group.prefetch(READY_TIMEOUT)
        self._alive[name] = replicas
        return CountedGroup(group, self._alive)

    def counts(self) -> tuple[int, int]:
        """Sandboxes of this worker that are (pending, ready)."""
        pending = ready = 0
        for name, replicas in self._alive.items():
            observed = (self._watch.group(name) if self._watch else None) or {}
            status = observed.get("status") or {}
            ready += status.get("ready") or 0
            pending += replicas - sum(status.get(part) or 0 for part in ("ready", "finished", "failed"))
        return max(0, pending), ready

    def by_node(self) -> NodeCounts:
        """See Sandboxes."""
        return self._watch.by_node() if self._watch else {}


class CountedGroup:
    """A SandboxGroup that is counted until it is deleted."""

    def __init__(self, group: SandboxGroup, alive: dict[str, int]) -> None:
        self._group = group
        self._alive = alive

    @property
    def age(self) -> float:
        """See SandboxGroup.age."""
        return self._group.age

    @property
    def idle_seconds(self) -> float:
        """See SandboxGroup.idle_seconds."""
        return self._group.idle_seconds

    @property
    def waits(self) -> dict[str, float]:
        """See SandboxGroup.waits."""
        return self._group.waits

    async def claim(self, ordinal: int) -> Session:
        """See SandboxGroup.claim."""
        return await self._group.claim(ordinal)

    async def release(self, ordinal: int) -> None:
        """See SandboxGroup.release."""
        await self._group.release(ordinal)

    async def delete(self) -> None:
        """See SandboxGroup.delete."""
        self._alive.pop(self._group.name, None)
        await self._group.delete()


def grader(client: KubeClient, job: Job) -> Grader:
    """The grader of one attempt; its verdict cache beside the checkpoints serves later attempts too."""
    return Grader(
        client,
        job.namespace,
        job.spec.grading,
        job.labels,
        [owner_reference(job)],
        sandbox=job.spec.sandbox,
        cache_directory=job.folder / VERDICTS,
    )


def owner_reference(job: Job) -> dict[str, Any]:
    """Owner reference to the job: Kubernetes deletes the object with the job."""
    return {"apiVersion": API_VERSION, "kind": "SweRLJob", "name": job.name, "uid": job.uid, "controller": False}
