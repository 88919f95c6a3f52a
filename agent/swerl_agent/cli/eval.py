"""`swerl eval`: measures how many tasks a model solves."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
from swerl_api import SampleSpec

from swerl_agent.episode import PROMPT_FAILED
from swerl_agent.evaluation import (
    MUST_MATCH,
    Evaluation,
    Redo,
    SampleRecord,
    SampleRecords,
    SummaryWriter,
    check_records,
    check_settings,
    merge,
    open_sample_runner,
    read_settings,
    sample_metadata,
    write_settings,
    write_summary,
)
from swerl_agent.grading import VERDICTS
from swerl_agent.tasks import Task
from swerl_agent.tasks.selection import shard_slice
from swerl_agent.visible import visible

from .command import Group, Options, keeps, resumes
from .folders import new_folder
from .model import CHAT, check_model_options, chosen_agent, model_name
from .option_sets import run_samples_options
from .options import (
    SAMPLING,
    agent_spec,
    open_client,
    prompts_text,
)
from .output import output_format_option, print_result
from .pod_options import (
    grading_settings,
    sandbox_settings,
)
from .task_options import chosen_tasks, path_argument
from .values import INTEGER, PART, PATH, POSITIVE, checked

SAMPLE_OPTIONS = (  # how a sample is run
    "agent",
    "protocol",
    "temperature",
    "top_p",
    "top_k",
    "step_limit",
    "step_timeout",
    "episode_timeout",
    "format_error_limit",
    "repeat_limit",
    "context_tokens",
    "context_policy",
    "head_ratio",
    "observation_max_chars",
    "observation_head_chars",
    "observation_tail_chars",
    "max_tokens",
    "model_kwargs",
)
CHOICE = ("samples", "filter", "slice", "split", "shuffle", "seed")  # which samples; may differ within a folder


command = Group(
    "eval",
    help="Measure how many tasks a model solves.",
    members={"job": (".eval_job:run_job", "run by the Pods of a SweEval")},
)


@command.command("run", help="run and grade samples of every task; a restart resumes")
@path_argument
@click.option("--output", type=PATH, required=True, help="folder for results, summary, predictions, artifacts")
@click.option(
    "--samples", type=POSITIVE, default=SAMPLING.samples, help=f"samples per task (default {SAMPLING.samples})"
)
@click.option(
    "--workers", type=POSITIVE, default=SAMPLING.workers, help=f"samples at the same time (default {SAMPLING.workers})"
)
@click.option("--shuffle", is_flag=True, help="shuffle the tasks by --seed, before --slice")
@click.option("--seed", type=INTEGER, default=42, help="seed of --shuffle (default 42)")
@click.option("--shard", type=PART, help="run only shard I (from 0) of N equal ones")
@click.option("--redo", type=click.Choice(["unresolved", "all"]), help="repeat these samples once")
@click.option("--model-name", help="name in predictions and summary (default: --model or the tokenizer folder)")
@click.option("--job", default="swerl-eval", help="job label of created objects (default swerl-eval)")
@run_samples_options
@resumes
async def run_evaluation(options: Options) -> int:
    """0 when every sample has a result, 1 when infrastructure or a template ended some."""
    check_model_options(options)
    spec = _sample_spec(options)
    tasks = _tasks(options)
    prompts, sandbox = prompts_text(options), sandbox_settings(options)
    settings = _settings(options, prompts)
    must_match = () if options.redo == "all" else MUST_MATCH
    metadata = sample_metadata(settings["model"], options.engine, agent_spec(options))
    grading = grading_settings(options, "grading_", jobs=options.workers)
    async with AsyncExitStack() as stack:
        with new_folder(options.output):
            records = SampleRecords(options.output)
            check_settings(options.output, read_settings(options.output), settings, must_match)
            agent = await stack.enter_async_context(chosen_agent(options, prompts))
            client = await stack.enter_async_context(open_client(options))
        write_settings(options.output, settings, must_match=must_match)
        redo = Redo(options.output)
        redo.choose(records, {(task.instance_id, n) for task in tasks for n in range(spec.samples)}, options.redo)
        summary_writer = SummaryWriter(options.output, records, settings)
        work = Evaluation(
            tasks,
            agent,
            spec,
            records,
            options.output,
            metadata=metadata,
            on_record=_ProgressLines(len(tasks) * spec.samples, records).show,
            write_summary=summary_writer.write,
        )
        try:
            if work.left:
                async with open_sample_runner(
                    client,
                    options.namespace or client.namespace,
                    grading,
                    sandbox,
                    job=options.job,
                    cache_directory=options.output / VERDICTS,
                    kubeconfig=options.kubeconfig,
                ) as runner:
                    await work.run(runner)
        finally:
            redo.done(records)
            summary = summary_writer.finish()
    print_result(options, summary, _lines(summary, options.output))
    check_records(records)
    return 1 if work.left else 0


@command.command("merge", help="merge the results of shards")
@click.argument("output", type=PATH)
@click.argument("shards", type=PATH, nargs=-1, required=True)
@output_format_option
@keeps("the shards are unchanged: run the same command again")
async def run_merge(options: Options) -> int:
    """Merge the folders; 0."""
    first = read_settings(options.shards[0])
    for folder in (*options.shards[1:], options.output):
        check_settings(folder, read_settings(folder), first, MUST_MATCH)
    records = merge(options.output, options.shards)
    write_settings(options.output, first, must_match=())
    summary = write_summary(options.output, records, first)
    print_result(options, summary, _lines(summary, options.output))
    return 0


def _tasks(options: Options) -> list[Task]:
    tasks = chosen_tasks(options, options.path, shuffle=options.shuffle, seed=options.seed)
    if not options.shard:
        return tasks
    index, count = options.shard
    return tasks[shard_slice(index, count, len(tasks))]


def _sample_spec(options: Options) -> SampleSpec:
    """Raises UsageError for values out of range."""
    fields = ("samples", "workers", "temperature", "top_p", "top_k")
    return checked(SampleSpec, **{name: getattr(options, name) for name in fields})


def _settings(options: Options, prompts: str | None) -> dict[str, Any]:
    sample_options = {key: getattr(options, key) for key in SAMPLE_OPTIONS}
    sample_options["prompts"] = prompts and hashlib.sha256(prompts.encode()).hexdigest()
    if options.api == CHAT:
        sample_options |= {"api": options.api, "model": options.model}
    choice = {key: getattr(options, key) for key in CHOICE}
    model = options.model_name or model_name(options)
    return {"model": model, "data": str(options.path), "sample_options": sample_options, "choice": choice}


class _ProgressLines:
    """Prints one line for every finished sample."""

    def __init__(self, total: int, records: SampleRecords) -> None:
        self._total, self._records = total, records

    def show(self, record: SampleRecord) -> None:
        known = [one for one in self._records.all if one.valid]
        outcome = record.verdict or record.exit_status if record.valid else f"lost: {record.error}"
        solved = sum(one.resolved for one in known)
        line = (
            f"{len(known)}/{self._total} {record.instance_id} #{record.sample}: {outcome} "
            f"({record.n_steps} commands, {record.elapsed:.0f} s); {solved} resolved"
        )
        print(visible(line), file=sys.stderr, flush=True)


def _lines(summary: dict[str, Any], folder: Path) -> Iterator[str]:
    for k, found in summary["pass_at_k"].items():
        yield f"pass@{k} {100 * found['rate']:.1f} % [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"
    failed = summary["exit_statuses"].get(PROMPT_FAILED, 0)
    lost = {"infrastructure": summary["errors"] - failed, "templates that do not render": failed}
    losses = "".join(f", {count} lost to {cause}" for cause, count in lost.items() if count)
    yield f"{summary['resolved']} of {summary['samples'] - summary['errors']} samples resolved{losses}"
    yield f"results: {folder}"
