"""`swerl logs`: of a job's driver, engines, ranks, sandboxes and gradings."""

from __future__ import annotations

import sys

import click

from swerl_agent.jobs import find_job
from swerl_agent.jobs.logs import SOURCES, LogRequest, log_lines
from swerl_agent.visible import visible

from ..command import Options, runs
from ..options import cluster_options, open_client
from ..values import NATURAL, POSITIVE

ALL = "all"
TAIL = 100  # lines


@click.command(
    "logs",
    help="Print logs of the SweRLJob NAME: its driver's, or those of --source. They are read from the job's folder,"
    " while it runs and after its end.\n\nEPISODE: an episode's folder as `swerl trajectories ls` prints it, the"
    " beginning of its name, GROUP/INDEX as the driver's log names it, or a Pod. Standard error says which file or Pod"
    " was read.",
)
@click.argument("name")
@click.option(
    "--source",
    "-s",
    "sources",
    multiple=True,
    type=click.Choice([*SOURCES, ALL]),
    help="source of the logs; repeatable (default driver)",
)
@click.option("--follow", "-f", is_flag=True, help="print lines as they are written, until the job or Ctrl-C ends it")
@click.option("--grading", metavar="EPISODE", help="the log of an episode's grading, with the outcome of each test")
@click.option("--sandbox", metavar="EPISODE", help="the commands of an episode's sandbox, with their outputs")
@click.option(
    "--tail",
    type=NATURAL,
    metavar="N",
    help="last lines of each file or Pod (default 100; all of --grading and --sandbox)",
)
@click.option("--attempt", type=POSITIVE, metavar="N", help="attempt of the job (default: the newest)")
@cluster_options
@runs
async def print_logs(options: Options) -> int:
    """0."""
    if options.grading or options.sandbox:
        return await _of_episode(options)
    chosen = tuple(dict.fromkeys(options.sources)) or ("driver",)
    sources = SOURCES if ALL in chosen else chosen
    tail = TAIL if options.tail is None else options.tail
    request = LogRequest(sources, options.follow, tail, options.attempt)
    async with open_client(options) as client:
        job = await find_job(client, options.namespace or client.namespace, options.name)
        async for line in log_lines(client, job, request):
            text = visible(line.text)
            print(text if chosen == ("driver",) else f"[{line.source}] {text}", flush=options.follow)
    return 0


async def _of_episode(options: Options) -> int:
    """Print the log of one grading or sandbox; 0."""
    from swerl_agent.jobs.episode_logs import grading_log, sandbox_log  # needs packages that other logs do not

    if options.grading and options.sandbox:
        raise click.UsageError("--grading and --sandbox exclude each other")
    if options.sources or options.follow or options.attempt:
        raise click.UsageError("--source, --follow and --attempt are for logs of processes, not of one episode")
    read, name = (grading_log, options.grading) if options.grading else (sandbox_log, options.sandbox)
    async with open_client(options) as client:
        job = await find_job(client, options.namespace or client.namespace, options.name)
        found = await read(client, job, name)
    print(f"swerl: from {found.origin}", file=sys.stderr)
    lines = found.lines if options.tail is None else found.lines[max(0, len(found.lines) - options.tail) :]
    for line in lines:
        print(visible(line))
    return 0
