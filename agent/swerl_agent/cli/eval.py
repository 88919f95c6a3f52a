"""`swerl eval`: how many of these tasks does this model solve?"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

from swerl_api import GradingSpec

from swerl_agent.episode import PROMPT_FAILED
from swerl_agent.evaluation import (
    AGREE,
    Conclusions,
    Evaluation,
    EvaluationSettings,
    Record,
    Records,
    Redo,
    check_agreement,
    check_prompts,
    conclude,
    keep_settings,
    made_with,
    merge,
    open_sample_runner,
    read_settings,
)
from swerl_agent.grading import VERDICTS
from swerl_agent.tasks import Task
from swerl_agent.tasks.selection import shard

from . import eval_job
from .model import CHAT, add_model_options, check_model_options, chosen_agent, model_name
from .options import (
    add_agent_options,
    add_cluster_options,
    add_pull_option,
    add_sampling_options,
    add_task_options,
    agent_spec,
    chosen_tasks,
    open_client,
    part,
    positive,
    prompts_text,
    sandbox_settings,
)

ATTEMPTS = (  # options that say how an attempt is made
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
)
CHOICE = ("samples", "filter", "slice", "split", "shuffle", "seed")  # and at what; a folder may grow by them


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`run`, `merge`, `job`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="attempt every task and grade it; started again it goes on where it stopped")
    run.add_argument("path", type=Path, help="task repository or .jsonl file")
    run.add_argument("--output", type=Path, required=True, help="folder for results, summary, predictions, artifacts")
    run.add_argument("--samples", type=positive, default=1, help="attempts per task (default 1)")
    run.add_argument("--workers", type=positive, default=4, help="attempts at the same time (default 4)")
    run.add_argument("--shuffle", action="store_true", help="in the order of --seed, before --slice")
    run.add_argument("--seed", type=int, default=42)
    run.add_argument("--shard", type=part, metavar="I/N", help="only part I (from 0) of N equal parts")
    run.add_argument("--redo", choices=["unresolved", "all"], help="make these attempts again, once")
    run.add_argument("--model-name", help="in predictions and summary; default: --model, the tokenizer folder's name")
    run.add_argument("--job", default="swerl-eval", help="name in the job label of what is created")
    run.add_argument("--grading-timeout", type=positive, default=600, help="seconds the tests of a task may run")
    add_model_options(run)
    add_agent_options(run)
    add_sampling_options(run)
    add_task_options(run)
    add_pull_option(run)
    add_cluster_options(run)
    run.set_defaults(run=run_evaluation)
    joined = verbs.add_parser("merge", help="put the results of shards together")
    joined.add_argument("output", type=Path, help="folder for the whole")
    joined.add_argument("shards", type=Path, nargs="+", help="output folders of the shards")
    joined.set_defaults(run=run_merge)
    eval_job.add_parser(verbs.add_parser("job", help="what the Pods of a SweEval run"))


async def run_evaluation(options: argparse.Namespace) -> int:
    """0 when every attempt has its result, 1 when infrastructure or a template kept some from it."""
    check_model_options(options)
    tasks = _tasks(options)
    records, prompts = Records(options.output), prompts_text(options)
    settings = _settings(options, prompts)
    agree = () if options.redo == "all" else AGREE
    check_agreement(options.output, read_settings(options.output), settings, agree)
    options.output.mkdir(parents=True, exist_ok=True)
    sandbox = sandbox_settings(options)
    told = made_with(settings["model"], options.engine, agent_spec(options))
    how = EvaluationSettings(options.samples, options.workers, options.temperature, told=told)
    grading = GradingSpec(max_concurrent=options.workers, timeout_seconds=options.grading_timeout)
    async with chosen_agent(options, prompts) as agent, open_client(options) as client:
        keep_settings(options.output, settings, agree=agree)  # now: an endpoint that refuses begins no folder
        redo = Redo(options.output)
        redo.choose(records, {(task.instance_id, n) for task in tasks for n in range(options.samples)}, options.redo)
        conclusions, show = Conclusions(options.output, records, settings), _Progress(tasks, how, records).show
        work = Evaluation(tasks, agent, how, records, options.output, on_record=show, conclude=conclusions.write)
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
                ) as attempts:
                    await work.run(attempts)
        finally:
            redo.done(records)
            summary = conclusions.made()
    _print(summary, options.output)
    check_prompts(records)
    return 1 if work.left else 0


async def run_merge(options: argparse.Namespace) -> int:
    """One folder out of many; 0."""
    first = read_settings(options.shards[0])
    for folder in (*options.shards[1:], options.output):
        check_agreement(folder, read_settings(folder), first, AGREE)
    records = merge(options.output, options.shards)
    keep_settings(options.output, first, agree=())
    _print(conclude(options.output, records, first), options.output)
    return 0


def _tasks(options: argparse.Namespace) -> list[Task]:
    tasks = chosen_tasks(options, options.path, shuffle=options.shuffle, seed=options.seed)
    if not options.shard:
        return tasks
    index, count = options.shard
    return tasks[shard(index, count, len(tasks))]


def _settings(options: argparse.Namespace, prompts: str | None) -> dict[str, Any]:
    attempts = {key: getattr(options, key) for key in ATTEMPTS}
    attempts["prompts"] = prompts and hashlib.sha256(prompts.encode()).hexdigest()
    if options.api == CHAT:
        attempts |= {"api": options.api, "model": options.model}
    choice = {key: getattr(options, key) for key in CHOICE}
    model = options.model_name or model_name(options)
    return {"model": model, "data": str(options.path), "attempts": attempts, "choice": choice}


class _Progress:
    """One line for every attempt that ends."""

    def __init__(self, tasks: list[Task], how: EvaluationSettings, records: Records) -> None:
        self._total, self._records = len(tasks) * how.samples, records

    def show(self, record: Record) -> None:
        known = [one for one in self._records.all if one.valid]
        outcome = record.verdict or record.exit_status if record.valid else f"lost: {record.error}"
        solved = sum(one.resolved for one in known)
        print(
            f"{len(known)}/{self._total} {record.instance_id} #{record.sample}: {outcome} "
            f"({record.n_steps} commands, {record.elapsed:.0f} s); {solved} resolved",
            file=sys.stderr,
            flush=True,
        )


def _print(summary: dict[str, Any], folder: Path) -> None:
    for k, found in summary["pass_at_k"].items():
        print(f"pass@{k} {100 * found['rate']:.1f} % [{100 * found['low']:.1f}, {100 * found['high']:.1f}]")
    print(f"{summary['resolved']} of {summary['attempts'] - summary['errors']} attempts resolved", end="")
    failed = summary["exit_statuses"].get(PROMPT_FAILED, 0)
    lost = {"infrastructure": summary["errors"] - failed, "templates that do not render": failed}
    print("".join(f", {count} lost to {cause}" for cause, count in lost.items() if count))
    print(f"results: {folder}")
