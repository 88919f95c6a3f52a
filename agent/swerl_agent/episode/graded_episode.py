"""The one way from a task to a graded episode: claim a sandbox, run the agent in it, release it, grade the patch.

Guarantees: the sandbox is released as soon as the episode ends, before grading. A patch is never graded in the sandbox
it was made in. Errors of the sandbox and of grading pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from swerl_kube.logs import log_ids

from swerl_agent.grading import Verdict

from .command_runner import CommandRunner
from .episode import PROMPT_FAILED, Episode
from .request import EpisodeRequest

Grade = Callable[[EpisodeRequest, Episode], Awaitable[Verdict]]


class Agent(Protocol):
    """Acts in episodes."""

    async def run_episode(self, request: EpisodeRequest, session: CommandRunner) -> Episode:
        """The finished episode in the sandbox of `session`; cancellation and programming errors are raised."""
        ...


@dataclass(frozen=True)
class GradedEpisode:
    """An episode and the verdict on its patch."""

    episode: Episode
    verdict: Verdict | None = None  # None: nothing was graded

    @property
    def resolved(self) -> bool:
        """Whether the patch solves the task."""
        return self.verdict is not None and self.verdict.resolved

    @property
    def reward(self) -> int | None:
        """1 when the task is solved, 0 when it is not, None when the episode was lost."""
        return None if self.loss_error is not None else int(self.resolved)

    @property
    def loss_error(self) -> str | None:
        """Why the episode says nothing about the model: infrastructure or a prompt template failed; else None."""
        if self.episode.infrastructure_error or self.episode.exit_status == PROMPT_FAILED:
            return self.episode.error or self.episode.exit_status
        if self.verdict is not None and self.verdict.status == "infra_error":
            return self.verdict.detail or self.verdict.status
        return None


def has_patch(episode: Episode) -> bool:
    """Whether the episode produced a patch."""
    return bool(episode.patch)


async def run_graded_episode(
    request: EpisodeRequest,
    agent: Agent,
    sandbox: AbstractAsyncContextManager[CommandRunner],
    grade: Grade,
    *,
    needs_grading: Callable[[Episode], bool] = has_patch,
) -> GradedEpisode:
    """Run `request` with `agent` in `sandbox`, then grade the patch if `needs_grading`.

    Raises what entering and leaving `sandbox` and `grade` raise.
    """
    with log_ids(episode=f"{request.group}/{request.index}", task=request.task.instance_id):
        async with sandbox as session:
            episode = await agent.run_episode(request, session)
        return GradedEpisode(episode, await grade(request, episode) if needs_grading(episode) else None)
