"""Options that choose tasks, and the tasks that they choose."""

from __future__ import annotations

from pathlib import Path

import click

from swerl_agent.tasks import Task, TaskError, format_of, load_tasks, select
from swerl_agent.tasks.eval_scripts import scripts_of
from swerl_agent.tasks.importing import ImportRequest, gather
from swerl_agent.tasks.quarantine import read_quarantine
from swerl_agent.tasks.sources import NAMES, RowSource, is_hub_name

from .command import Options, together
from .values import PATH, REGISTRY_REWRITE

TASKS = f"task repository, .jsonl or .parquet file, folder of them, or data set ({', '.join(NAMES)}, owner/name)"


paths_argument = click.argument("path", type=PATH, nargs=-1, required=True)
path_argument = click.argument("path", type=PATH)
source_option = click.option(
    "--data-source", default="", help="for files whose rows do not name it: decides their images"
)
rewrite_option = click.option(
    "--registry-rewrite",
    type=REGISTRY_REWRITE,
    multiple=True,
    help="rewrite image references; an empty PREFIX matches all; repeatable, the first match counts",
)
script_option = click.option(
    "--eval-scripts", metavar="SOURCE", help="eval scripts by id, for rows without eval_script"
)
quarantine_option = click.option(
    "--quarantine", type=PATH, metavar="FILE", help="leave out the tasks that `check` wrote here"
)
task_options = together(
    click.option("--format", type=click.Choice(["swebench-task-repo", "jsonl"]), help="default: jsonl for files"),
    click.option("--instances", multiple=True, metavar="ID[,ID...]", help="only these ids; repeatable"),
    click.option("--filter", metavar="REGEX", help="only ids that begin with a match"),
    click.option("--slice", metavar="A:B", help="python slice of the sorted ids, after the filter"),
    click.option("--split", help="only tasks of this split"),
    quarantine_option,
    source_option,
    script_option,
    rewrite_option,
)


def eval_scripts(options: Options) -> dict[str, str]:
    """Those of --eval-scripts, by id; raises TaskError."""
    return scripts_of(RowSource(options.eval_scripts)) if options.eval_scripts else {}


def chosen_tasks(options: Options, *paths: Path, shuffle: bool = False, seed: int = 0) -> list[Task]:
    """The tasks at `paths`, each a place on this machine or a data set's name, that the options choose.

    Raises TaskError, also for an id of --instances that is not there.
    """
    tasks = [task for path in paths for task in _tasks_at(options, path)]
    if options.instances:
        wanted = {name for names in options.instances for name in names.split(",") if name}
        if unknown := sorted(wanted - {task.instance_id for task in tasks}):
            places = ", ".join(map(str, paths))
            raise TaskError(f"{places}: no task {', '.join(unknown)}, or it is in quarantine (--instances)")
        tasks = [task for task in tasks if task.instance_id in wanted]
    return select(tasks, filter=options.filter, slice=options.slice, shuffle=shuffle, seed=seed)


def known_ids(options: Options, *paths: Path) -> set[str]:
    """Ids of all tasks at `paths`, chosen or not; raises TaskError."""
    return {task.instance_id for path in paths for task in _tasks_at(options, path)}


def _tasks_at(options: Options, path: Path) -> list[Task]:
    exclude = read_quarantine(options.quarantine) if options.quarantine else set()
    if is_hub_name(str(path)):
        return [task for task in _downloaded(options, str(path)) if task.instance_id not in exclude]
    return load_tasks(
        path,
        options.format or format_of(path),
        split=options.split,
        exclude=exclude,
        registry_rewrite=options.registry_rewrite,
        data_source=options.data_source,
        scripts=eval_scripts(options),
    )


def _downloaded(options: Options, name: str) -> list[Task]:
    malformed: list[TaskError] = []
    request = ImportRequest(
        purpose="evaluation", scripts=eval_scripts(options), registry_rewrite=options.registry_rewrite
    )
    source = RowSource(name, split=options.split, data_source=options.data_source)
    entries = gather([source], request, malformed.append)
    if malformed:
        raise TaskError(f"{len(malformed)} malformed rows, the first: {malformed[0]} (`swerl tasks import` says more)")
    return [entry.task for entry in entries]
