"""`swerl tasks import` and `export`: rows of any source as JSON Lines that training and evaluation read.

Guarantees: each fault is one line on standard error, with its first row and the number of rows that have it. No file is
touched unless all rows are good or --keep-going omits the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from swerl_agent.tasks import Purpose, TaskError
from swerl_agent.tasks.eval_scripts import script_warning
from swerl_agent.tasks.exporting import export_assets
from swerl_agent.tasks.importing import Entry, ImportRequest, gather
from swerl_agent.tasks.quarantine import read_quarantine
from swerl_agent.tasks.sources import DEFAULT_SOURCE, NAMES, RowSource
from swerl_agent.tasks.writing import Layout, write_entries

from .task_options import add_rewrite_option, add_script_options, add_source_option, eval_scripts
from .values import natural

SOURCE = f"Hugging Face id, short name ({', '.join(NAMES)}), .jsonl or .parquet file, folder, task repository"


def add_parsers(verbs: Any) -> None:
    """`import` and `export`."""
    bring = verbs.add_parser("import", help="write tasks of any source as .jsonl for training or evaluation")
    bring.add_argument("source", nargs="*", default=[DEFAULT_SOURCE], help=f"{SOURCE}; default {DEFAULT_SOURCE}")
    bring.add_argument("--output", "-o", type=Path, required=True, help="the .jsonl file to write")
    bring.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    bring.add_argument("--purpose", choices=["train", "evaluation"], default="train", help="default train")
    bring.add_argument("--train-on-benchmark", action="store_true", help="allow training on SWE-bench's test sets")
    _add_row_options(bring)
    bring.set_defaults(run=import_tasks)
    out = verbs.add_parser("export", help="write an evaluation set's ids, images and tasks into a folder")
    out.add_argument("source", nargs="?", default="verified", help=f"{SOURCE}; default verified")
    out.add_argument("--output", "-o", type=Path, required=True, help="the folder to write into")
    out.add_argument("--name", default="verified", help="the tasks go to NAME_eval.jsonl (default verified)")
    _add_row_options(out)
    out.set_defaults(run=export_tasks)


def _add_row_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", help="configuration of a Hugging Face data set")
    parser.add_argument("--split", help="default: test of SWE-bench sets, train of others")
    parser.add_argument("--revision", help="branch, tag or commit of a Hugging Face data set")
    add_source_option(parser)
    parser.add_argument("--filter", metavar="REGEX", help="only ids that begin with a match")
    parser.add_argument("--limit", type=natural, default=0, metavar="N", help="only the first N rows (default 0: all)")
    parser.add_argument("--quarantine", type=Path, metavar="FILE", help="leave out the tasks that `check` wrote here")
    add_script_options(parser)
    parser.add_argument("--format", choices=["text", "prompt"], default="text", help="key of the prompt (default text)")
    parser.add_argument("--whole-rows", action="store_true", help="reference fix and tests in the same file")
    parser.add_argument("--keep-going", action="store_true", help="leave malformed rows out; exit code 1")
    add_rewrite_option(parser)


async def import_tasks(options: argparse.Namespace) -> int:
    """Write the tasks and say where; 1 when malformed rows were left out."""
    entries, malformed = _gathered(options, options.source, options.purpose, options.train_on_benchmark)
    written = write_entries(options.output, entries, _layout(options), append=options.append)
    return _say(len(entries), written, malformed)


async def export_tasks(options: argparse.Namespace) -> int:
    """Write the assets and say where; 1 when malformed rows were left out."""
    entries, malformed = _gathered(options, [options.source], "evaluation", False)
    return _say(len(entries), export_assets(options.output, options.name, entries, _layout(options)), malformed)


def _gathered(
    options: argparse.Namespace, texts: list[str], purpose: Purpose, allowed: bool
) -> tuple[list[Entry], int]:
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


def _source(options: argparse.Namespace, text: str) -> RowSource:
    return RowSource(text, options.config, options.split, options.revision, options.data_source)


def _layout(options: argparse.Namespace) -> Layout:
    return Layout(options.format, options.whole_rows)


def _say(tasks: int, written: list[Path], malformed: int) -> int:
    print(f"{tasks} tasks: {', '.join(map(str, written))}")
    if malformed:
        print(f"swerl: {malformed} malformed rows were left out", file=sys.stderr)
    return 1 if malformed else 0
