"""`swerl watch`: the live view of a job."""

from __future__ import annotations

import asyncio

import click
from swerl_api import API_VERSION
from swerl_api.names import JOB_LABEL
from swerl_kube import Forbidden, Json, KubeClient

from swerl_agent.jobs import find_job

from ..command import Options, runs
from ..options import cluster_options, open_client
from ..output import is_json, output_option, print_line
from ..values import SECONDS


@click.command(
    "watch",
    help="Follow the SweRLJob NAME until its end: progress, ETA, rewards, sandboxes by state, warnings. Without a"
    " terminal, print a line for each change; with -o json, a JSON object on a line of its own for each reading.",
)
@click.argument("name")
@click.option("--interval", type=SECONDS, default=2.0, help="time between two readings (default 2)")
@click.option("--once", is_flag=True, help="print the first reading and end")
@output_option
@cluster_options
@runs
async def watch_job(options: Options) -> int:
    """0 when the job is Complete, or after --once; 1 when it Failed."""
    from rich.console import Console  # needs packages that other commands do not
    from rich.live import Live

    from swerl_agent.jobs.view import JobView

    console, view = Console(), JobView(options.name)
    redraws = console.is_terminal and not is_json(options) and not options.once
    live = Live(console=console, auto_refresh=False) if redraws else None
    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        if live:
            live.start()
        try:
            while True:
                before = view.headline()
                view.observe(*await _reading(client, namespace, options.name))
                if live:
                    live.update(view.panel(), refresh=True)
                elif is_json(options):
                    print_line(view.as_json())
                elif options.once or view.headline() != before:
                    print(f"{view.elapsed()}  {view.headline()}{view.details()}", flush=True)
                if view.is_final or options.once:
                    break
                await asyncio.sleep(options.interval)
        finally:
            if live:
                live.stop()
    return 1 if view.status.get("phase") == "Failed" else 0


async def _reading(client: KubeClient, namespace: str, name: str) -> tuple[Json, list[Json] | None]:
    job = await find_job(client, namespace, name)
    try:
        return job, await client.list(API_VERSION, "swesandboxes", namespace, labels=f"{JOB_LABEL}={name}")
    except Forbidden:
        return job, None
