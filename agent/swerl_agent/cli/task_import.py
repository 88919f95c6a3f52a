"""`swerl tasks import` and `export`: rows of any source as JSON Lines that training and evaluation read.

Guarantees: each fault is one line on standard error, with its first row and the number of rows that have it. No file is
touched unless all rows are good or --keep-going omits the others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from swerl_agent.tasks import Purpose, TaskError
from swerl_agent.tasks.eval_scripts import script_warning
from swerl_agent.tasks.exporting import export_assets
from swerl_agent.tasks.importing import Entry, ImportRequest, gather
from swerl_agent.tasks.quarantine import read_quarantine
from swerl_agent.tasks.sources import DEFAULT_SOURCE, NAMES, RowSource
from swerl_agent.tasks.writing import RowLayout, write_entries

from .command import Options, keeps, together
from .output import long_output_format_option, print_result
from .task_options import eval_scripts, quarantine_option, rewrite_option, script_option, source_option
from .values import NATURAL, PATH

SOURCE = f"Hugging Face id, short name ({', '.join(NAMES)}), .jsonl or .parquet file, folder, task repository"


row_options = together(
    click.option("--config", help="configuration of a Hugging Face data set"),
    click.option("--split", help="default: test of SWE-bench sets, train of others"),
    click.option("--revision", help="branch, tag or commit of a Hugging Face data set"),
    source_option,
    click.option("--filter", metavar="REGEX", help="only ids that begin with a match"),
    click.option("--limit", type=NATURAL, default=0, help="only the first N rows (default 0: all)"),
    quarantine_option,
    script_option,
    click.option(
        "--format", type=click.Choice(["text", "prompt"]), default="text", help="key of the prompt (default text)"
    ),
    click.option("--whole-rows", is_flag=True, help="reference fix and tests in the same file"),
    click.option("--keep-going", is_flag=True, help="leave malformed rows out; exit code 1"),
    rewrite_option,
    long_output_format_option,
)


@click.command(
    "import",
    help="Write tasks of any source as .jsonl for training or evaluation.\n\n"
    f"SOURCE: {SOURCE}; default {DEFAULT_SOURCE}",
)
@click.argument("source", nargs=-1)
@click.option("-o", "--output", type=PATH, required=True, help="the .jsonl file to write")
@click.option("--append", is_flag=True, help="add to the file instead of replacing it")
@click.option("--purpose", type=click.Choice(["train", "evaluation"]), default="train", help="default train")
@click.option("--train-on-benchmark", is_flag=True, help="allow training on SWE-bench's test sets")
@row_options
@keeps("each file is complete or as it was before")
async def import_tasks(options: Options) -> int:
    """Write the tasks and say where; 1 when malformed rows were left out."""
    sources = options.source or [DEFAULT_SOURCE]
    entries, malformed = _gathered(options, sources, options.purpose, options.train_on_benchmark)
    written = write_entries(options.output, entries, _layout(options), append=options.append)
    return _print_summary(options, len(entries), written, malformed)


@click.command(
    "export",
    help=f"Write an evaluation set's ids, images and tasks into a folder.\n\nSOURCE: {SOURCE}; default verified",
)
@click.argument("source", default="verified")
@click.option("-o", "--output", type=PATH, required=True, help="the folder to write into")
@click.option("--name", default="verified", help="the tasks go to NAME_eval.jsonl (default verified)")
@row_options
@keeps("each file is complete or as it was before")
async def export_tasks(options: Options) -> int:
    """Write the assets and say where; 1 when malformed rows were left out."""
    entries, malformed = _gathered(options, [options.source], "evaluation", False)
    written = export_assets(options.output, options.name, entries, _layout(options))
    return _print_summary(options, len(entries), written, malformed)


def _gathered(options: Options, texts: Sequence[str], purpose: Purpose, allowed: bool) -> tuple[list[Entry], int]:
    malformed: list[TaskError] = []

    request = ImportRequest(
        purpose=purpose,
        train_on_benchmark=allowed,
        filter=options.filter,
        exclude=read_quarantine(options.quarantine) if options.quarantine else (),
        limit=options.limit,
        scripts=eval_scripts(options),
        registry_rewrite=options.registry_rewrite,
    )
    try:
        entries = gather([_source(options, text) for text in texts], request, malformed.append)
    finally:
        _report(malformed)
    warned = [(entry.where, warning) for entry in entries if (warning := script_warning(_script(entry)))]
    _report([TaskError(f"warning: {warning}", place) for place, warning in warned])
    if malformed and not options.keep_going:
        raise TaskError(
            f"{len(malformed)} malformed rows, {len(entries)} good; nothing was written (--keep-going would)"
        )
    return entries, len(malformed)


def _script(entry: Entry) -> str:
    return entry.task.ground_truth.eval_script


def _report(faults: Iterable[TaskError]) -> None:
    """One line for each fault on standard error: its first row, and how many rows have it."""
    by_fault: dict[str, list[TaskError]] = {}
    for fault in faults:
        by_fault.setdefault(fault.reason, []).append(fault)
    for same in by_fault.values():
        more = f" (and {len(same) - 1:,} more rows)" if len(same) > 1 else ""
        print(f"swerl: {same[0]}{more}", file=sys.stderr)


def _source(options: Options, text: str) -> RowSource:
    return RowSource(text, options.config, options.split, options.revision, options.data_source)


def _layout(options: Options) -> RowLayout:
    return RowLayout(options.format, options.whole_rows)


def _print_summary(options: Options, tasks: int, written: list[Path], malformed: int) -> int:
    document = {"tasks": tasks, "files": [str(path) for path in written], "malformed_rows": malformed}
    print_result(options, document, [f"{tasks} tasks: {', '.join(map(str, written))}"])
    if malformed:
        print(f"swerl: {malformed} malformed rows were left out", file=sys.stderr)
    return 1 if malformed else 0
