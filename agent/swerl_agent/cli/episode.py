"""`swerl episode run`: one graded episode at one task."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from swerl_agent.episode import PROMPT_FAILED, EpisodeRequest, NoRepository, write_artifacts, written_on_exit
from swerl_agent.evaluation import open_sample_runner, sample_metadata
from swerl_agent.storage import finish_in_thread
from swerl_agent.tasks import Task, TaskError
from swerl_agent.visible import visible

from .command import Group, Options, keeps
from .model import check_model_options, chosen_agent, model_name
from .option_sets import run_samples_options
from .options import (
    agent_spec,
    open_client,
    prompts_text,
)
from .output import print_result
from .pod_options import (
    grading_settings,
    sandbox_settings,
)
from .task_options import chosen_tasks, path_argument
from .values import PATH

command = Group("episode", help="Run and grade one episode.")


@command.command("run", help="run one episode of one task and grade its patch")
@path_argument
@click.option("--task", required=True, metavar="ID", help="instance_id")
@click.option("--output", type=PATH, default=Path("episodes"), help="folder for artifacts (default ./episodes)")
@click.option("--job", default="swerl-cli", help="job label of created objects (default swerl-cli)")
@run_samples_options
@keeps("artifacts of the episode so far are in the folder of --output")
async def run_one(options: Options) -> int:
    """Run and grade.

    0 when the task is resolved, 2 when a template fails or the image has no repository, 3 when infrastructure fails,
    else 1.
    """
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
                live=options.output,
                on_end=ended.append,
            )
            graded = await samples.run(request, agent)
            ended.clear()
            episode, verdict, meta["reward"] = graded.episode, graded.verdict, graded.reward
            folder = await finish_in_thread(write_artifacts, options.output, episode, verdict, meta=meta)
    status = verdict.status if verdict else None
    document = {
        "instance_id": task.instance_id,
        "exit_status": episode.exit_status,
        "commands": len(episode.commands),
        "verdict": status,
        "reward": graded.reward,
        "error": graded.loss_error or episode.error or None,
        "artifacts": str(folder),
    }
    line = f"{episode.exit_status} after {len(episode.commands)} commands: {status or 'no patch'}"
    print_result(options, document, [line, f"artifacts: {folder}"])
    if error := graded.loss_error or episode.error:
        print(f"swerl: {visible(error)}", file=sys.stderr)
    if graded.loss_error:
        return 2 if episode.error_code in (PROMPT_FAILED, NoRepository.code) else 3
    return 0 if graded.resolved else 1


def _find(options: Options) -> Task:
    for task in chosen_tasks(options, options.path):
        if task.instance_id == options.task:
            return task
    raise TaskError(f"{options.path} has no task {options.task}")
