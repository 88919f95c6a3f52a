"""One attempt at one task: a sandbox, an episode in it, the verdict on its patch.

Guarantees: a sandbox goes when its attempt ends, however it ends, and everything goes with the process, by one Lease; a
sandbox that cannot be removed now costs no attempt; a patch is graded apart from the sandbox it was made in.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerl_api import GradingSpec, SandboxSpec
from swerl_api.names import JOB_LABEL, TASK_LABEL, label_value

from swerl_agent.episode import PROMPT_FAILED, Agent, Episode
from swerl_agent.grading import Grader, Placement, Verdict
from swerl_agent.kube import KubeClient
from swerl_agent.sandbox import SandboxGroup, delete_best_effort
from swerl_agent.sandbox.lease import LeaseKeeper, owning_lease
from swerl_agent.sandbox.spec import group_spec, queue_labels
from swerl_agent.tasks import Task


@dataclass(frozen=True)
class Attempt:
    """What came of one."""

    episode: Episode
    verdict: Verdict | None = None  # None: there is no patch

    @property
    def resolved(self) -> bool:
        """Whether the patch solves the task."""
        return self.verdict is not None and self.verdict.resolved

    @property
    def reward(self) -> int | None:
        """1 when the task is solved, 0 when it is not, None when that is not known."""
        return None if self.lost is not None else int(self.resolved)

    @property
    def lost(self) -> str | None:
        """How infrastructure, or a failing template, kept the attempt from saying anything about the model, or None."""
        if self.episode.infrastructure_error or self.episode.exit_status == PROMPT_FAILED:
            return self.episode.error or self.episode.exit_status
        if self.verdict is not None and self.verdict.status == "infra_error":
            return self.verdict.detail or self.verdict.status
        return None


class Attempts:
    """Makes attempts in `namespace`, whose sandboxes name `lease`.

    `job` is the name in the job label of what is created, `labels` are further ones of it.
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
        self._client, self._namespace, self._lease = client, namespace, lease
        self._sandbox = sandbox or SandboxSpec()
        self._labels = {JOB_LABEL: job, **(labels or {})}

    @property
    def lost(self) -> Future[None]:
        """Fails with LeaseLost when the Lease could not be kept: what runs, and every attempt after it, is in vain."""
        return self._lease.lost

    async def make(
        self,
        task: Task,
        agent: Agent,
        *,
        group: str,
        index: int,
        temperature: float,
        on_end: Callable[[Episode], None] | None = None,
    ) -> Attempt:
        """One attempt of `agent` at `task`; the other arguments are those of `run_episode`.

        Raises SandboxError and KubeError when no sandbox can be had, GradingError when nothing can be graded here.
        """
        sandboxes = await self._declare(task)
        try:
            session = await sandboxes.claim(0)
            episode = await agent.run_episode(
                task, session, group=group, index=index, temperature=temperature, on_end=on_end
            )
        finally:
            await delete_best_effort(sandboxes.delete())
        patch = episode.patch
        return Attempt(episode, await self.grader.grade(task, patch, image=episode.image) if patch else None)

    async def _declare(self, task: Task) -> SandboxGroup:
        spec = group_spec(self._sandbox, image=task.image, task_id=task.instance_id, replicas=1, owner=self._lease.name)
        labels = self._labels | {TASK_LABEL: label_value(task.instance_id)} | queue_labels(self._sandbox)
        name = f"attempt-{os.urandom(6).hex()}"
        return await SandboxGroup.declare(self._client, name=name, spec=spec, labels=labels, namespace=self._namespace)


@asynccontextmanager
async def opened_attempts(
    client: KubeClient,
    namespace: str,
    grading: GradingSpec,
    sandbox: SandboxSpec,
    *,
    job: str,
    labels: Mapping[str, str] | None = None,
    owners: Sequence[Mapping[str, Any]] = (),
    cache_directory: Path | None = None,
    kubeconfig: str | None = None,
) -> AsyncIterator[Attempts]:
    """Attempts with a Grader and a Lease of their own, which `owners` own; `kubeconfig` is that of `client`.

    The other arguments are those of Grader and Attempts. Raises LeaseLost when the Lease cannot be had.
    """
    placement = Placement.of(sandbox)
    async with (
        owning_lease(namespace, job, labels=labels, owners=owners, kubeconfig=kubeconfig) as lease,
        Grader(client, namespace, grading, placement=placement, cache_directory=cache_directory, lease=lease) as grader,
    ):
        yield Attempts(client, namespace, grader, lease, job=job, sandbox=sandbox, labels=labels)
