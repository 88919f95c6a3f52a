"""`swerl episode run`: one graded episode at one task."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from swerl_agent.episode import PROMPT_FAILED, EpisodeRequest, write_artifacts, written_on_exit
from swerl_agent.evaluation import open_sample_runner, sample_metadata
from swerl_agent.storage import finish_in_thread
from swerl_agent.tasks import Task, TaskError

from .model import add_model_options, check_model_options, chosen_agent, model_name
from .options import (
    add_agent_options,
    add_cluster_options,
    add_sampling_options,
    agent_spec,
    open_client,
    prompts_text,
)
from .pod_options import (
    add_grading_options,
    add_pod_options,
    add_sandbox_options,
    grading_settings,
    sandbox_settings,
)
from .task_options import TASKS, add_task_options, chosen_tasks


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`run`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run one episode of one task and grade its patch")
    run.add_argument("path", type=Path, help=TASKS)
    run.add_argument("--task", required=True, metavar="ID", help="instance_id")
    run.add_argument("--output", type=Path, default=Path("episodes"), help="folder for artifacts (default ./episodes)")
    run.add_argument("--job", default="swerl-cli", help="job label of created objects (default swerl-cli)")
    add_model_options(run)
    add_agent_options(run)
    add_sampling_options(run)
    add_task_options(run)
    add_pod_options(run)
    add_sandbox_options(run)
    add_grading_options(run, "grading-")
    add_cluster_options(run)
    run.set_defaults(run=run_one)


async def run_one(options: argparse.Namespace) -> int:
    """Run and grade; 0 when the task is resolved, 2 when a template fails, 3 when infrastructure fails, else 1."""
    check_model_options(options)
    task, sandbox, prompts = _find(options), sandbox_settings(options), prompts_text(options)
    meta = sample_metadata(model_name(options), options.engine, agent_spec(options))
    meta["temperature"] = options.temperature
    grading = grading_settings(options, "grading_", jobs=1)
    async with chosen_agent(options, prompts) as agent, open_client(options) as client:
        namespace = options.namespace or client.namespace
        async with (
            open_sample_runner(
                client, namespace, grading, sandbox, job=options.job, kubeconfig=options.kubeconfig
            ) as samples,
            written_on_exit(partial(write_artifacts, options.output, verdict=None, meta=meta)) as ended,
        ):
            request = EpisodeRequest(
                task,
                group="cli",
                index=0,
                temperature=options.temperature,
                workdir=task.workdir_or(sandbox.workdir),
                on_end=ended.append,
            )
            graded = await samples.run(request, agent)
            ended.clear()
            episode, verdict, meta["reward"] = graded.episode, graded.verdict, graded.reward
            folder = await finish_in_thread(write_artifacts, options.output, episode, verdict, meta=meta)
    print(f"{episode.exit_status} after {len(episode.steps)} commands: {verdict.status if verdict else 'no patch'}")
    print(f"artifacts: {folder}")
    if error := graded.loss_error or episode.error:
        print(f"swerl: {error}", file=sys.stderr)
    if graded.loss_error:
        return 2 if episode.exit_status == PROMPT_FAILED else 3
    return 0 if graded.resolved else 1


def _find(options: argparse.Namespace) -> Task:
    for task in chosen_tasks(options, options.path):
        if task.instance_id == options.task:
            return task
    raise TaskError(f"{options.path} has no task {options.task}")
