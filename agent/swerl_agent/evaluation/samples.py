"""Samples of an evaluation: one episode in its own sandbox, and the verdict on its patch.

Guarantees: the sandbox of a sample is deleted when its episode ends, however it ends. One Lease owns all sandboxes, so
that they do not outlive the process. A sandbox that cannot be deleted now fails no sample.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from swerl_api import GradingSpec, SandboxSpec
from swerl_api.names import JOB_LABEL, TASK_LABEL, label_value
from swerl_kube import KubeClient, KubeContext

from swerl_agent.episode import Agent, CommandRunner, Episode, EpisodeRequest, GradedEpisode, run_graded_episode
from swerl_agent.grading import Grader, Verdict
from swerl_agent.sandbox import SandboxGroup, delete_best_effort
from swerl_agent.sandbox.lease import LeaseKeeper, owning_lease
from swerl_agent.sandbox.spec import group_spec, queue_labels
from swerl_agent.tasks import Task


class SampleRunner:
    """Runs samples in `namespace`, whose sandboxes name `lease`.

    `job` is the value of the job label of all created objects; `labels` are added to it.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        grader: Grader,
        lease: LeaseKeeper,
        *,
        job: str,
        sandbox: SandboxSpec | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.grader = grader
        self.sandbox = sandbox or SandboxSpec()
        self._client, self._namespace, self._lease = client, namespace, lease
        self._labels = {JOB_LABEL: job, **(labels or {})}

    @property
    def lost(self) -> Future[None]:
        """Fails with LeaseLost when the Lease could not be renewed; running and later samples cannot succeed then."""
        return self._lease.lost

    async def run(self, request: EpisodeRequest, agent: Agent) -> GradedEpisode:
        """Run `request` with `agent` in a new sandbox and grade its patch.

        Raises SandboxError and KubeError when no sandbox can be had, GradingError when nothing can be graded here.
        """
        return await run_graded_episode(request, agent, self._claimed_sandbox(request.task), self._grade)

    @asynccontextmanager
    async def _claimed_sandbox(self, task: Task) -> AsyncIterator[CommandRunner]:
        group = await self._declare(task)
        try:
            yield await group.claim(0)
        finally:
            await delete_best_effort(group.delete())

    async def _grade(self, request: EpisodeRequest, episode: Episode) -> Verdict:
        return await self.grader.grade(request.task, episode.patch or "", image=episode.image)

    async def _declare(self, task: Task) -> SandboxGroup:
        spec = group_spec(
            self.sandbox,
            image=task.image,
            task_id=task.instance_id,
            workdir=task.workdir_or(self.sandbox.workdir),
            replicas=1,
            owner=self._lease.name,
        )
        labels = self._labels | {TASK_LABEL: label_value(task.instance_id)} | queue_labels(self.sandbox)
        name = f"sample-{os.urandom(6).hex()}"
        return await SandboxGroup.declare(self._client, name=name, spec=spec, labels=labels, namespace=self._namespace)


@asynccontextmanager
async def open_sample_runner(
    client: KubeClient,
    namespace: str,
    grading: GradingSpec,
    sandbox: SandboxSpec,
    *,
    job: str,
    labels: Mapping[str, str] | None = None,
    owners: Sequence[Mapping[str, Any]] = (),
    cache_directory: Path | None = None,
    kubeconfig: str | KubeContext | None = None,
) -> AsyncIterator[SampleRunner]:
    """A SampleRunner with its own Grader and Lease, owned by `owners`; `kubeconfig` is that of `client`.

    The other arguments are those of Grader and SampleRunner. Raises LeaseLost when the Lease cannot be acquired.
    """
    async with (
        owning_lease(namespace, job, labels=labels, owners=owners, kubeconfig=kubeconfig) as lease,
        Grader(client, namespace, grading, sandbox=sandbox, cache_directory=cache_directory, lease=lease) as grader,
    ):
        yield SampleRunner(client, namespace, grader, lease, job=job, sandbox=sandbox, labels=labels)
