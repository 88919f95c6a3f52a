"""One shard of a SweEval, and the merge of all shards: the work of its Jobs' Pods.

Guarantees: a restarted shard resumes in its folder, and loses and repeats no sample. Its sandboxes are deleted when it
ends by itself or by SIGTERM, and with its Lease otherwise. The merge may be repeated.
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

from swerl_agent.episode import Agent, ChatCompletions, SGLangEngine, api_key_headers, check_served, environment_proxy
from swerl_agent.episode.configured import agent_tokenizer, prompts_text
from swerl_agent.grading import VERDICTS
from swerl_agent.tasks import Task, load_tasks
from swerl_agent.tasks.selection import shard_slice

from .agents import open_agent, open_chat_agent
from .artifacts import sample_metadata
from .evaluation import Evaluation, check_records
from .folder import MUST_MATCH, SummaryWriter, read_settings, set_results_aside, write_settings, write_summary
from .progress import ProgressReport, progress_of
from .records import RESULTS, SampleRecords
from .samples import SampleRunner, open_sample_runner
from .summary import merge

SHARED_FIELDS = {"tasks", "agent", "temperature", "top_p", "top_k"}  # of the spec, common to results of one folder


@dataclass(frozen=True)
class ShardFolders:
    """Paths in the Pods."""

    tasks: Path = Path(names.TASKS_PATH)
    prompts: Path = Path(names.PROMPTS_PATH)
    output: Path = Path(names.OUTPUT_PATH)


@dataclass(frozen=True)
class Shard:
    """Shard `number` (from 0) of a SweEval."""

    file: EvaluationFile
    number: int
    folders: ShardFolders = ShardFolders()
    api_key: str | None = field(default=None, repr=False)  # of the endpoint, or of the evaluation's own engines

    @property
    def folder(self) -> Path:
        """Its output."""
        return self.folders.output / self.file.folder / names.shard_folder(self.number, self.file.spec.shards)


async def run_shard(client: KubeClient, shard: Shard, *, kubeconfig: str | KubeContext | None = None) -> bool:
    """Run the shard's samples; whether each has a result or a prompt that does not render.

    `kubeconfig` is that of `client`. Raises ResultsError, TaskError, PromptError, TokenizerError, EndpointError for
    wrong input, EngineError for a chat endpoint that does not answer, and what `Evaluation.run` raises.
    """
    file, spec = shard.file, shard.file.spec
    all_tasks = await asyncio.to_thread(load_shard_tasks, shard)
    tasks = all_tasks[shard_slice(shard.number, spec.shards, len(all_tasks))]
    settings = _settings(file)
    async with _agent(shard) as agent:
        records = await asyncio.to_thread(_open_records, shard, settings)  # an endpoint that refuses begins no folder
        report = _report(client, file, str(shard.number))
        summary_writer = SummaryWriter(shard.folder, records, settings)
        metadata, write_summary = shard_metadata(file), summary_writer.write
        work = Evaluation(tasks, agent, spec, records, shard.folder, metadata=metadata, write_summary=write_summary)
        task_ids, total = {task.instance_id for task in tasks}, len(all_tasks) * spec.samples
        following = asyncio.create_task(report.follow(lambda: progress_of(records, task_ids, total)))
        try:
            if work.left:
                async with _sample_runner(client, shard, kubeconfig) as runner:
                    await work.run(runner)
        finally:
            following.cancel()
            await asyncio.to_thread(summary_writer.finish)
        await report.write(progress_of(records, task_ids, total))
    return not work.retryable


async def merge_shards(client: KubeClient, file: EvaluationFile, folders: ShardFolders | None = None) -> dict[str, Any]:
    """Merge the results of all shards; the summary, which the SweEval's status shows from then on.

    Raises ResultsError when a shard has no results, what `check_records` raises, KubeError when the summary cannot be
    written.
    """
    folder = (folders or ShardFolders()).output / file.folder
    parts = [folder / names.shard_folder(number, file.spec.shards) for number in range(file.spec.shards)]
    records = await asyncio.to_thread(merge, folder, parts, replace_existing=True)
    settings = read_settings(parts[0])
    write_settings(folder, settings, must_match=())
    summary = await asyncio.to_thread(write_summary, folder, records, settings)
    await _report(client, file, names.ROLE_MERGE).write(
        EvalProgress(
            total=summary["samples"],
            done=summary["samples"] - summary["errors"],
            resolved=summary["resolved"],
            errors=summary["errors"],
            rate=summary["resolve_rate"],
            pass_at_k={k: found["rate"] for k, found in summary["pass_at_k"].items()},
        )
    )
    check_records(records)
    return summary


def load_shard_tasks(shard: Shard) -> list[Task]:
    """All tasks of the evaluation, in the order in which shards shard them out; raises TaskError."""
    chosen = shard.file.spec.tasks
    return load_tasks(
        shard.folders.tasks,
        chosen.format,
        slice=chosen.slice,
        filter=chosen.filter,
        shuffle=chosen.shuffle,
        seed=chosen.seed,
        registry_rewrite=shard.file.spec.sandbox.registry_rewrite,
    )


def _open_records(shard: Shard, settings: dict[str, Any]) -> SampleRecords:
    redo = shard.file.spec.redo
    shard.folder.mkdir(parents=True, exist_ok=True)
    if redo is not None:
        set_results_aside(shard.folder, shard.file.uid, redo)
    records = SampleRecords(shard.folder)
    write_settings(shard.folder, settings, must_match=MUST_MATCH)
    (shard.folder / RESULTS).touch()  # a shard without tasks has results, too: none
    return records


def _settings(file: EvaluationFile) -> dict[str, Any]:
    """The settings that results of one folder must share."""
    options = file.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=SHARED_FIELDS)
    if endpoint := file.chat_endpoint:
        options |= {"api": endpoint.api, "model": endpoint.model}
    return {"model": file.model, "data": file.name, "sample_options": options}


def shard_metadata(file: EvaluationFile) -> dict[str, Any]:
    """Metadata of the shard's samples."""
    return sample_metadata(file.model, file.engine, file.spec.agent)


@asynccontextmanager
async def _agent(shard: Shard) -> AsyncIterator[Agent]:
    headers = api_key_headers(shard.api_key) if shard.file.spec.model.endpoint is None else None
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as http:
        opened = _chat_agent if shard.file.chat_endpoint else _token_agent
        async with opened(shard, http) as agent:
            yield agent


@asynccontextmanager
async def _token_agent(shard: Shard, http: aiohttp.ClientSession) -> AsyncIterator[Agent]:
    file, chosen = shard.file, shard.file.spec.agent
    assert file.tokenizer is not None, "the API server admits none without a tokenizer"
    tokenizer = await asyncio.to_thread(agent_tokenizer, chosen, file.tokenizer)
    if endpoint := file.spec.model.endpoint:  # engines of the evaluation itself serve its model
        await check_served(file.engine, http, model=endpoint.model, tokenizer=file.tokenizer)
    engine = SGLangEngine(file.engine, http, top_p=file.spec.top_p, top_k=file.spec.top_k)
    async with open_agent(chosen, engine, tokenizer, _prompts(shard)) as agent:
        yield agent


@asynccontextmanager
async def _chat_agent(shard: Shard, http: aiohttp.ClientSession) -> AsyncIterator[Agent]:
    file, spec, endpoint = shard.file, shard.file.spec, shard.file.chat_endpoint
    assert endpoint is not None and endpoint.model is not None, "the API server admits none without a model"
    server = ChatCompletions(
        file.engine,
        http,
        model=endpoint.model,
        api_key=shard.api_key,
        top_p=spec.top_p,
        top_k=spec.top_k,
        proxy=await environment_proxy(file.engine),
    )
    async with open_chat_agent(spec.agent, server, _prompts(shard), temperature=spec.temperature) as agent:
        yield agent


def _prompts(shard: Shard) -> str | None:
    return prompts_text(shard.file.spec.agent, shard.folders.prompts)


def _sample_runner(
    client: KubeClient, shard: Shard, kubeconfig: str | KubeContext | None
) -> AbstractAsyncContextManager[SampleRunner]:
    file = shard.file
    return open_sample_runner(
        client,
        file.namespace,
        file.spec.grading,
        file.spec.sandbox,
        job=names.evaluation_scope(file.name),
        labels=file.labels,
        owners=[_owner(file)],
        cache_directory=shard.folders.output / file.folder / VERDICTS,
        kubeconfig=kubeconfig,
    )


def _report(client: KubeClient, file: EvaluationFile, part: str) -> ProgressReport:
    metadata = {"labels": file.labels, "ownerReferences": [_owner(file)]}
    return ProgressReport(client, file.namespace, names.progress_name(file.name, part), metadata)


def _owner(file: EvaluationFile) -> dict[str, Any]:
    """Owner reference to the SweEval, so that objects are deleted with it."""
    return {"apiVersion": API_VERSION, "kind": "SweEval", "name": file.name, "uid": file.uid, "controller": False}
