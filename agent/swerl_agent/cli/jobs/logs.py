"""`swerl logs`: of a job's driver, engines, ranks, sandboxes and gradings."""

from __future__ import annotations

import click

from swerl_agent.jobs import find_job
from swerl_agent.jobs.logs import SOURCES, LogRequest, log_lines
from swerl_agent.visible import visible

from ..command import Options, runs
from ..options import cluster_options, open_client
from ..values import NATURAL, POSITIVE

ALL = "all"


@click.command(
    "logs",
    help="Print logs of the SweRLJob NAME: its driver's, or those of --source. They are read from the job's folder,"
    " while it runs and after its end.",
)
@click.argument("name")
@click.option(
    "--source",
    "-s",
    "sources",
    multiple=True,
    type=click.Choice([*SOURCES, ALL]),
    help="whose logs; repeatable (default driver)",
)
@click.option("--follow", "-f", is_flag=True, help="print lines as they are written, until the job or Ctrl-C ends it")
@click.option("--tail", type=NATURAL, default=100, metavar="N", help="last lines of each file or Pod (default 100)")
@click.option("--attempt", type=POSITIVE, metavar="N", help="attempt of the job (default: the newest)")
@cluster_options
@runs
async def print_logs(options: Options) -> int:
    """0."""
    chosen = tuple(dict.fromkeys(options.sources)) or ("driver",)
    sources = SOURCES if ALL in chosen else chosen
    request = LogRequest(sources, options.follow, options.tail, options.attempt)
    async with open_client(options) as client:
        job = await find_job(client, options.namespace or client.namespace, options.name)
        async for line in log_lines(client, job, request):
            text = visible(line.text)
            print(text if chosen == ("driver",) else f"[{line.source}] {text}", flush=options.follow)
    return 0
