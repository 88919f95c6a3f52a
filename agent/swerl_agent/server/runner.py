"""How a request becomes an attempt."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Protocol

import aiohttp

from swerl_agent.episode import AgentLimits, BuiltinAgent, Episode, Prompts, SGLangEngine, Tokenizer
from swerl_agent.evaluation import Attempt, Attempts
from swerl_agent.grading import Grader

from .request import RunRequest, Sampling

GROUP = "server"  # one for all: requests for a task share its prefix in one engine
GOLDEN = "golden"  # exit status and source of a patch that is the reference fix


class Runner(Protocol):
    """Carries requests out."""

    async def run(self, request: RunRequest) -> Attempt:
        """Raises SandboxError, KubeError, GradingError when the infrastructure fails."""
        ...


class AttemptRunner:
    """Attempts of the model that serves at the request's engine."""

    def __init__(
        self,
        attempts: Attempts,
        http: aiohttp.ClientSession,
        tokenizer: Tokenizer,
        prompts: Prompts,
        limits: AgentLimits,
    ) -> None:
        self._attempts, self._http = attempts, http
        self._tokenizer, self._prompts, self._limits = tokenizer, prompts, limits
        self._count = count()

    async def run(self, request: RunRequest) -> Attempt:
        """See Runner."""
        sampling = request.sampling
        engine = SGLangEngine(request.engine, self._http, top_p=sampling.top_p, top_k=sampling.top_k)
        agent = BuiltinAgent(engine, self._tokenizer, self._prompts, _limits(self._limits, sampling))
        return await self._attempts.make(
            request.task, agent, group=GROUP, index=next(self._count), temperature=sampling.temperature
        )


class GoldenRunner:
    """The reference fix in the place of the model."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader

    async def run(self, request: RunRequest) -> Attempt:
        """See Runner."""
        task = request.task
        patch = task.evaluation.patch
        episode = Episode(
            task.instance_id, GROUP, 0, patch=patch, patch_source=GOLDEN, exit_status=GOLDEN, agent_name=GOLDEN
        )
        return Attempt(episode, await self._grader.grade(task, patch))


def _limits(limits: AgentLimits, sampling: Sampling) -> AgentLimits:
    wanted = sampling.max_new_tokens or limits.max_tokens_per_turn
    return replace(limits, max_tokens_per_turn=min(limits.max_tokens_per_turn, wanted))
