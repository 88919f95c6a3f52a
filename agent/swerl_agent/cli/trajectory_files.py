"""`swerl trajectories export` and `import`: episodes for other viewers, trajectories of other agents for ours."""

from __future__ import annotations

import sys

import click

from swerl_agent.audit import TrajectoryError
from swerl_agent.trajectories.export import FORMATS, export_trajectories
from swerl_agent.trajectories.importing import harness_verdicts, import_trajectories

from .command import Options, keeps
from .episode_folder import episode_files
from .options import cluster_options
from .output import output_format_option, print_result
from .values import PATH

output_option = click.option("--output", type=PATH, required=True, metavar="FOLDER", help="folder to write to")


@click.command(
    "export",
    help="Write episodes for `harbor view` or `inspect view`.\n\n"
    "FOLDER: that of a job, an evaluation or an episode, one that contains some, or the name of a SweRLJob.",
)
@click.argument("folder", type=PATH)
@click.option("--format", type=click.Choice(FORMATS), required=True, help="atif: harbor's jobs; inspect: .eval logs")
@output_option
@click.option("--no-tokens", is_flag=True, help="leave out token ids, log-probs and loss masks")
@output_format_option
@cluster_options
@keeps("what was written so far is kept")
async def export_folder(options: Options) -> int:
    """Write the episodes. Exit codes: 0 all, 2 all but those named on stderr."""
    async with episode_files(options, options.folder) as folder:
        count = export_trajectories(
            folder, options.output, options.format, tokens=not options.no_tokens, on_error=_print_error
        )
    written = [str(path) for path in count.written]
    summary = f"{count.episodes} episodes exported" + (f", {count.failed} left out" if count.failed else "")
    document = {"episodes": count.episodes, "left_out": count.failed, "written": written}
    print_result(options, document, [*written, summary])
    return 2 if count.failed else 0


@click.command(
    "import",
    help="Store trajectories of mini-swe-agent and SWE-agent as episodes.\n\n"
    "PATH: .traj.json or .traj file, or a folder that contains some.",
)
@click.argument("path", type=PATH, nargs=-1, required=True)
@output_option
@click.option("--report", type=PATH, metavar="FILE", help="report of the SWE-bench harness: adds verdicts")
@output_format_option
@keeps("trajectories so far are kept: run the same command again")
async def import_files(options: Options) -> int:
    """Store the trajectories. Exit codes: 0 all, 2 all but those named on stderr."""
    verdicts = harness_verdicts(options.report) if options.report else {}
    count = import_trajectories(options.path, options.output, verdicts=verdicts, on_error=_print_error)
    known = f", {count.known} were there before" if count.known else ""
    summary = f"{count.episodes} trajectories imported{known}" + (f", {count.failed} left out" if count.failed else "")
    print_result(options, {"episodes": count.episodes, "known": count.known, "left_out": count.failed}, [summary])
    return 2 if count.failed else 0


def _print_error(error: TrajectoryError) -> None:
    print(f"swerl: {error}", file=sys.stderr)
