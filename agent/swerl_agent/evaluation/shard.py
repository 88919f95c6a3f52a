"""One shard of a SweEval, and the merge of all: what the Pods of its Jobs do.

Guarantees: a shard started again goes on in its folder, so it loses and repeats nothing; its sandboxes are gone when it
ends by itself or by SIGTERM, and with its Lease otherwise; the merge may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from swerl_api import API_VERSION, EvalProgress, EvaluationFile, names
from swerl_kube import KubeClient, KubeContext

from swerl_agent.episode import Agent, ChatCompletions, SGLangEngine, check_served, environment_proxy
from swerl_agent.episode.configured import agent_tokenizer, prompts_text
from swerl_agent.grading import VERDICTS
from swerl_agent.tasks import Task, load_tasks
from swerl_agent.tasks.selection import shard

from .agents import open_agent, open_chat_agent
from .artifacts import made_with
from .evaluation import Evaluation, EvaluationSettings, check_prompts
from .folder import AGREE, Conclusions, begin_again, conclude, keep_settings, read_settings
from .progress import ProgressReport, progress_of
from .records import RESULTS, Records
from .samples import SampleRunner, open_sample_runner
from .summary import merge

KEPT = {"tasks", "agent", "temperature", "top_p", "top_k"}  # fields of the spec that results of one folder share


@dataclass(frozen=True)
class Folders:
    """Where things stand in the Pods."""

    tasks: Path = Path(names.TASKS_PATH)
    prompts: Path = Path(names.PROMPTS_PATH)
    output: Path = Path(names.OUTPUT_PATH)


@dataclass(frozen=True)
class Share:
    """Shard `number` (from 0) of a SweEval."""

    file: EvaluationFile
    number: int
    folders: Folders = Folders()
    api_key: str | None = field(default=None, repr=False)  # of the endpoint

    @property
    def folder(self) -> Path:
        """Its output."""
        return self.folders.output / self.file.folder / names.shard_folder(self.number, self.file.spec.shards)


async def make_share(client: KubeClient, share: Share, *, kubeconfig: str | KubeContext | None = None) -> bool:
    """Make the shard's attempts; whether each has its result, or none to be had with these prompts.

    `kubeconfig` is that of `client`. Raises RecordError, TaskError, PromptError, TokenizerError, EndpointError for
    wrong input, EngineError for a chat endpoint that does not answer, and what `Evaluation.run` raises.
    """
    file, spec = share.file, share.file.spec
    everything = await asyncio.to_thread(load_share_tasks, share)
    tasks = everything[shard(share.number, spec.shards, len(everything))]
    settings = _settings(file)
    async with _agent(share) as agent:
        records = await asyncio.to_thread(_open_records, share, settings)  # an endpoint that refuses begins no folder
        report = _report(client, file, str(share.number))
        conclusions = Conclusions(share.folder, records, settings)
        how = _evaluation_settings(file)
        work = Evaluation(tasks, agent, how, records, share.folder, conclude=conclusions.write)
        mine, total = {task.instance_id for task in tasks}, len(everything) * spec.samples
        following = asyncio.create_task(report.follow(lambda: progress_of(records, mine, total)))
        try:
            if work.left:
                async with _sample_runner(client, share, kubeconfig) as runner:
                    await work.run(runner)
        finally:
            following.cancel()
            await asyncio.to_thread(conclusions.made)
        await report.tell(progress_of(records, mine, total))
    return not work.retryable


async def merge_shares(client: KubeClient, file: EvaluationFile, folders: Folders | None = None) -> dict[str, Any]:
    """Put the results of all shards together; the summary, which the SweEval's status says from now on.

    Raises RecordError when a shard has no results, PromptError when no attempt could be prompted, KubeError when the
    summary cannot be told.
    """
    folder = (folders or Folders()).output / file.folder
    parts = [folder / names.shard_folder(number, file.spec.shards) for number in range(file.spec.shards)]
    records = await asyncio.to_thread(merge, folder, parts, afresh=True)
    settings = read_settings(parts[0])
    keep_settings(folder, settings, agree=())
    summary = await asyncio.to_thread(conclude, folder, records, settings)
    await _report(client, file, names.ROLE_MERGE).tell(
        EvalProgress(
            total=summary["attempts"],
            done=summary["attempts"] - summary["errors"],
            resolved=summary["resolved"],
            errors=summary["errors"],
            rate=summary["resolve_rate"],
            pass_at_k={k: found["rate"] for k, found in summary["pass_at_k"].items()},
        )
    )
    check_prompts(records)
    return summary


def load_share_tasks(share: Share) -> list[Task]:
    """All tasks of the evaluation, in the order in which shards share them out; raises TaskError."""
    chosen = share.file.spec.tasks
    return load_tasks(
        share.folders.tasks,
        chosen.format,
        slice=chosen.slice,
        filter=chosen.filter,
        shuffle=chosen.shuffle,
        seed=chosen.seed,
        registry_rewrite=share.file.spec.sandbox.registry_rewrite,
    )


def _open_records(share: Share, settings: dict[str, Any]) -> Records:
    redo = share.file.spec.redo
    share.folder.mkdir(parents=True, exist_ok=True)
    if redo is not None:
        begin_again(share.folder, share.file.uid, redo)
    records = Records(share.folder)
    keep_settings(share.folder, settings, agree=AGREE)
    (share.folder / RESULTS).touch()  # a share without tasks has results, too: none
    return records


def _settings(file: EvaluationFile) -> dict[str, Any]:
    """What results of one folder must have in common."""
    said = file.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=KEPT)
    if endpoint := file.chat_endpoint:
        said |= {"api": endpoint.api, "model": endpoint.model}
    return {"model": file.model, "data": file.name, "attempts": said}


def _evaluation_settings(file: EvaluationFile) -> EvaluationSettings:
    spec = file.spec
    return EvaluationSettings(
        spec.samples,
        spec.workers,
        spec.temperature,
        told=made_with(file.model, file.engine, spec.agent),
    )


@asynccontextmanager
async def _agent(share: Share) -> AsyncIterator[Agent]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        opened = _chat_agent if share.file.chat_endpoint else _token_agent
        async with opened(share, http) as agent:
            yield agent


@asynccontextmanager
async def _token_agent(share: Share, http: aiohttp.ClientSession) -> AsyncIterator[Agent]:
    file, chosen = share.file, share.file.spec.agent
    assert file.tokenizer is not None, "the API server admits none without a tokenizer"
    tokenizer = await asyncio.to_thread(agent_tokenizer, chosen, file.tokenizer)
    if endpoint := file.spec.model.endpoint:  # engines that are started serve what they were told to
        await check_served(file.engine, http, model=endpoint.model, tokenizer=file.tokenizer)
    engine = SGLangEngine(file.engine, http, top_p=file.spec.top_p, top_k=file.spec.top_k)
    async with open_agent(chosen, engine, tokenizer, _prompts(share)) as agent:
        yield agent


@asynccontextmanager
async def _chat_agent(share: Share, http: aiohttp.ClientSession) -> AsyncIterator[Agent]:
    file, spec, endpoint = share.file, share.file.spec, share.file.chat_endpoint
    assert endpoint is not None and endpoint.model is not None, "the API server admits none without a model"
    server = ChatCompletions(
        file.engine,
        http,
        model=endpoint.model,
        api_key=share.api_key,
        top_p=spec.top_p,
        top_k=spec.top_k,
        proxy=await environment_proxy(file.engine),
    )
    async with open_chat_agent(spec.agent, server, _prompts(share), temperature=spec.temperature) as agent:
        yield agent


def _prompts(share: Share) -> str | None:
    return prompts_text(share.file.spec.agent, share.folders.prompts)


def _sample_runner(
    client: KubeClient, share: Share, kubeconfig: str | KubeContext | None
) -> AbstractAsyncContextManager[SampleRunner]:
    file = share.file
    return open_sample_runner(
        client,
        file.namespace,
        file.spec.grading,
        file.spec.sandbox,
        job=names.evaluation_scope(file.name),
        labels=file.labels,
        owners=[_owner(file)],
        cache_directory=share.folders.output / file.folder / VERDICTS,
        kubeconfig=kubeconfig,
    )


def _report(client: KubeClient, file: EvaluationFile, part: str) -> ProgressReport:
    metadata = {"labels": file.labels, "ownerReferences": [_owner(file)]}
    return ProgressReport(client, file.namespace, names.progress_name(file.name, part), metadata)


def _owner(file: EvaluationFile) -> dict[str, Any]:
    """Owner reference to the SweEval, so that nothing outlives it."""
    return {"apiVersion": API_VERSION, "kind": "SweEval", "name": file.name, "uid": file.uid, "controller": False}
