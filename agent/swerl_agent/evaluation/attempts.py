"""One attempt at one task: a sandbox, an episode in it, the verdict on its patch.

Guarantees: a sandbox goes when its attempt ends, however it ends, and all of them go with the process, by one Lease; a
sandbox that cannot be removed now costs no attempt; a patch is graded apart from the sandbox it was made in.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from swerl_api import Sandbox
from swerl_api.names import JOB_LABEL, TASK_LABEL, label_value

from swerl_agent.episode import PROMPT_FAILED, Agent, Episode
from swerl_agent.grading import Grader, Verdict
from swerl_agent.kube import KubeClient
from swerl_agent.sandbox import SandboxGroup, let_go
from swerl_agent.sandbox.lease import LeaseKeeper, this_process
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
    """Makes attempts in `namespace`; use with `async with`, which raises LeaseLost when the Lease cannot be had.

    `job` is the name in the job label of what is created, `labels` are further ones of it; `owners` are the owner
    references of the Lease, `kubeconfig` is that of `client`.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        grader: Grader,
        *,
        job: str,
        sandbox: Sandbox | None = None,
        labels: Mapping[str, str] | None = None,
        owners: Sequence[Mapping[str, Any]] = (),
        kubeconfig: str | None = None,
    ) -> None:
        self._client, self._namespace, self._grader = client, namespace, grader
        self._sandbox = sandbox or Sandbox()
        self._labels = {JOB_LABEL: job, **(labels or {})}
        self._lease = LeaseKeeper(
            namespace,
            f"{job}-{os.urandom(4).hex()}",
            holder=this_process(),
            labels=self._labels,
            owner_refs=owners,
            kubeconfig=kubeconfig,
        )

    @property
    def lost(self) -> Future[None]:
        """Fails with LeaseLost when the Lease could not be kept: what runs, and every attempt after it, is in vain."""
        return self._lease.lost

    async def __aenter__(self) -> Self:
        self._lease.start()
        try:
            await asyncio.to_thread(self._lease.wait_held)
        except BaseException:
            await asyncio.to_thread(self._lease.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._lease.stop)

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
            await let_go(sandboxes.delete())
        patch = episode.patch
        return Attempt(episode, await self._grader.grade(task, patch, image=episode.image) if patch else None)

    async def _declare(self, task: Task) -> SandboxGroup:
        spec = group_spec(self._sandbox, image=task.image, task_id=task.instance_id, replicas=1, owner=self._lease.name)
        labels = self._labels | {TASK_LABEL: label_value(task.instance_id)} | queue_labels(self._sandbox)
        name = f"attempt-{os.urandom(6).hex()}"
        return await SandboxGroup.declare(self._client, name=name, spec=spec, labels=labels, namespace=self._namespace)
