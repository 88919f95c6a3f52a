"""Runs the episode of a request and grades its patch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Protocol

import aiohttp
from swerl_api import AgentSpec

from swerl_agent.episode import (
    RETRY_POLICY,
    BuiltinAgent,
    EndpointError,
    Episode,
    EpisodeRequest,
    GradedEpisode,
    Prompts,
    RetryPolicy,
    SGLangEngine,
    Tokenizer,
    check_served,
)
from swerl_agent.evaluation import SampleRunner
from swerl_agent.grading import Grader

from .request import InvalidRequest, RunRequest, Sampling

GROUP = "server"  # one for all: requests for a task share its prefix in one engine
GOLD_PATCH = "golden"  # exit status and source of a patch that is the reference fix


class RequestRunner(Protocol):
    """Carries requests out."""

    async def run(self, request: RunRequest, on_end: Callable[[Episode], None] | None = None) -> GradedEpisode:
        """`on_end` gets the episode whatever ends it, before it is graded.

        Raises SandboxError, KubeError, GradingError when the infrastructure fails.
        """
        ...


class ModelRunner:
    """Episodes of the model that serves at the request's engine.

    `folder` is the tokenizer's: an engine that says that it serves another kind of model is refused.
    """

    def __init__(
        self,
        sample_runner: SampleRunner,
        http: aiohttp.ClientSession,
        tokenizer: Tokenizer,
        prompts: Prompts,
        spec: AgentSpec,
        *,
        folder: Path | None = None,
        retry_policy: RetryPolicy = RETRY_POLICY,
    ) -> None:
        self._sample_runner, self._http = sample_runner, http
        self._tokenizer, self._prompts, self._spec = tokenizer, prompts, spec
        self._folder, self._known = folder, set[str]()
        self._retry_policy = retry_policy
        self._count = count()

    async def run(self, request: RunRequest, on_end: Callable[[Episode], None] | None = None) -> GradedEpisode:
        """See RequestRunner; raises InvalidRequest for an engine of another model."""
        await self._check(request.engine)
        sampling = request.sampling
        engine = SGLangEngine(
            request.engine,
            self._http,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            retry_policy=self._retry_policy,
        )
        agent = BuiltinAgent(engine, self._tokenizer, self._prompts, _with_limits(self._spec, sampling))
        episode = EpisodeRequest(
            request.task,
            group=GROUP,
            index=next(self._count),
            temperature=sampling.temperature,
            workdir=request.task.workdir_or(self._sample_runner.sandbox.workdir),
            on_end=on_end,
        )
        return await self._sample_runner.run(episode, agent)

    async def _check(self, engine: str) -> None:
        if self._folder is None or engine in self._known:
            return
        try:
            await check_served(engine, self._http, model=None, tokenizer=self._folder)
        except EndpointError as error:
            raise InvalidRequest(f"sglang_url: {error}") from error
        self._known.add(engine)


class GoldPatchRunner:
    """The reference fix in the place of the model."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader

    async def run(self, request: RunRequest, on_end: Callable[[Episode], None] | None = None) -> GradedEpisode:
        """See the protocol; there is no episode, so `on_end` is not called."""
        task = request.task
        patch = task.ground_truth.patch
        episode = Episode(
            task.instance_id,
            GROUP,
            0,
            patch=patch,
            patch_source=GOLD_PATCH,
            exit_status=GOLD_PATCH,
            agent_name=GOLD_PATCH,
        )
        return GradedEpisode(episode, await self._grader.grade(task, patch))


def _with_limits(spec: AgentSpec, sampling: Sampling) -> AgentSpec:
    requested = sampling.max_new_tokens or spec.max_tokens_per_turn
    return spec.model_copy(update={"max_tokens_per_turn": min(spec.max_tokens_per_turn, requested)})
