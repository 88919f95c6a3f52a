"""The rollout worker as a Ray actor, and the driver's handle on it.

Guarantees: an actor that died is replaced before the next call; its episodes are reported as lost; nothing here imports
torch.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from swerl_agent.episode import (
    Agent,
    Episode,
    HFTokenizer,
    SGLangEngine,
    TokenSegment,
    api_key_headers,
    cut_answers,
    max_input_tokens,
    retokenize,
)
from swerl_agent.episode.configured import agent_tokenizer, prompts_text
from swerl_agent.evaluation import open_agent
from swerl_agent.judge import Judge
from swerl_agent.tasks import Purpose, Task, load_tasks
from swerl_api import TaskSelection
from swerl_api.names import ROLLOUT_RESOURCE
from swerl_kube import KubeClient
from swerl_trainer.engines.api_key import api_key
from swerl_trainer.engines.client import ADAPTER
from swerl_trainer.events import event
from swerl_trainer.job import Job
from swerl_trainer.rollout.cluster import KubernetesSandboxes, grader
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.group import TaskCounts
from swerl_trainer.rollout.tracing import open_tracer
from swerl_trainer.rollout.worker import Worker

logger = logging.getLogger(__name__)

RESERVE = 60  # seconds of a sandbox's lifetime for the work before and after its episode


class RolloutActor:
    """A Worker on the Kubernetes cluster; call `prepare` first."""

    def __init__(self, job: Job, router: str, kubeconfig: str | None = None, judge: str | None = None) -> None:
        job.log.configure(sys.stderr)
        self._job = job
        self._router = router
        self._kubeconfig = kubeconfig
        self._judge_router = judge
        self._open = AsyncExitStack()
        self._preparing: asyncio.Task[Worker] | None = None
        self._api_writes = 0

    async def prepare(self) -> TaskCounts:
        """Read tasks, prompts and tokenizer, connect to the cluster. Raises TaskError, PromptError, TokenizerError."""
        return await (await self._prepared()).prepare()

    async def call(self, operation: str, *arguments: Any) -> Any:
        """The result of a worker's operation, see `RolloutWorker`."""
        return await getattr(await self._prepared(), operation)(*arguments)

    async def close(self) -> None:
        """Stop everything and remove the sandboxes."""
        if self._preparing is not None and self._preparing.done() and not self._preparing.exception():
            await self._preparing.result().close()
        await self._open.aclose()

    async def _prepared(self) -> Worker:
        if self._preparing is None:
            self._preparing = asyncio.ensure_future(self._prepare())
        return await asyncio.shield(self._preparing)

    async def _prepare(self) -> Worker:
        job, spec = self._job, self._job.spec
        train = _tasks(job, spec.tasks, job.paths.tasks, "train")
        held_out = _tasks(job, spec.evaluation, job.paths.evaluation, "evaluation") if spec.evaluation else []
        tokenizer = await asyncio.to_thread(policy_tokenizer, job)
        client = await self._open.enter_async_context(
            KubeClient.from_environment(self._kubeconfig, observer=self._count_write)
        )
        engines = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=api_key_headers(api_key()))
        http = await self._open.enter_async_context(engines)
        grading = await self._open.enter_async_context(grader(client, job))
        if (tracer := open_tracer(job)) is not None:
            self._open.callback(tracer.close)
        dependencies = WorkerDependencies(
            tasks={"train": train, "evaluation": held_out},
            sandboxes=KubernetesSandboxes(client, job),
            grading=grading,
            agent=await self._agent(http, tokenizer),
            algorithm=spec.algorithm,
            artifacts=job.folder / "artifacts",
            sandbox_name=job.sandbox_name,
            workdir=spec.sandbox.workdir,
            max_age=spec.sandbox.lifetime_seconds - spec.agent.episode_timeout_seconds - RESERVE,
            judge=await self._judge(http),
            encode=_encoding(job, tokenizer),
            sampling={
                "top_p": spec.algorithm.top_p,
                "top_k": spec.algorithm.top_k,
                "max_new_tokens": spec.agent.max_tokens_per_turn,
            },
            model=job.model,
            tracer=tracer,
            api_writes=lambda: self._api_writes,
        )
        return Worker(dependencies)

    def _count_write(self, method: str, status: int | None, seconds: float) -> None:
        if method != "GET" and status is not None:
            self._api_writes += 1

    async def _agent(self, http: aiohttp.ClientSession, tokenizer: HFTokenizer) -> Agent:
        job, chosen, algorithm = self._job, self._job.spec.agent, self._job.spec.algorithm
        adapter = ADAPTER if self._job.engine_adapter else None
        engine = SGLangEngine(self._router, http, top_p=algorithm.top_p, top_k=algorithm.top_k, adapter=adapter)
        prompts = prompts_text(chosen, job.paths.prompts)
        return await self._open.enter_async_context(open_agent(chosen, engine, tokenizer, prompts))

    async def _judge(self, http: aiohttp.ClientSession) -> Judge | None:
        spec = self._job.spec
        if spec.judge is None or self._judge_router is None:
            return None
        tokenizer = await asyncio.to_thread(HFTokenizer, self._job.paths.judge)
        engine = SGLangEngine(self._judge_router, http)
        return Judge(engine, tokenizer, spec.judge, processes=spec.rollout.workers, seed=spec.algorithm.seed)


class RayWorker:
    """Operations of a `RolloutWorker` that runs in a Ray actor; a lost actor is replaced before the next call.

    Every operation raises RayActorError when the actor is lost meanwhile.
    """

    def __init__(
        self, job: Job, router: str, number: int, kubeconfig: str | None = None, *, judge: str | None = None
    ) -> None:
        self._job = job
        self._judge = judge
        self._kubeconfig = kubeconfig
        self._router = router
        self._number = number
        self._actor: Any = self._create()

    async def prepare(self) -> TaskCounts:
        """The number of tasks, once the worker is ready."""
        counts: TaskCounts = await self._remote("prepare")
        return counts

    async def close(self) -> None:
        """Stop everything and remove the sandboxes."""
        await self._remote("close")

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        if operation.startswith("_"):
            raise AttributeError(operation)
        return partial(self._remote, "call", operation)

    async def _remote(self, method: str, *arguments: Any) -> Any:
        from ray.exceptions import RayActorError

        actor = self._actor
        try:
            return await getattr(actor, method).remote(*arguments)
        except RayActorError:
            if self._actor is actor:
                text = "rollout worker %d is lost; starting another"
                logger.warning(text, self._number, extra=event("RolloutWorkerLost"))
                self._actor = self._create()
            raise

    def _create(self) -> Any:
        import ray

        actor = ray.remote(RolloutActor).options(
            num_cpus=0, resources={ROLLOUT_RESOURCE: 1}, max_restarts=0, max_concurrency=10_000
        )
        return actor.remote(self._job, self._router, self._kubeconfig, self._judge)


def _tasks(job: Job, selection: TaskSelection, path: Path, purpose: Purpose) -> list[Task]:
    return load_tasks(
        path,
        "jsonl" if selection.source.hugging_face else selection.format,
        slice=selection.slice,
        filter=selection.filter,
        purpose=purpose,
        registry_rewrite=job.spec.sandbox.registry_rewrite,
    )


def _encoding(job: Job, tokenizer: HFTokenizer) -> Callable[[Episode], Sequence[TokenSegment]] | None:
    """The encoding of an episode to train on; None: the sampled tokens."""
    if job.spec.algorithm.encoding == "sampled":
        return None
    longest = max_input_tokens(job.spec.agent)  # of conversations that the model read whole

    def encode(episode: Episode) -> Sequence[TokenSegment]:
        cut = cut_answers(tokenizer, episode.segments)
        return retokenize(tokenizer, episode.messages, max_context=longest, cut=cut)

    return encode


def policy_tokenizer(job: Job) -> HFTokenizer:
    """The tokenizer of the trained model, with the agent's protocol and the job's chat template."""
    return agent_tokenizer(job.spec.agent, job.spec.model.tokenizer or job.paths.model)
