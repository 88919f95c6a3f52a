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
from ..values import SECONDS


@click.command(
    "watch",
    help="Follow the SweRLJob NAME until its end: progress, ETA, rewards, sandboxes by state, warnings. Without a"
    " terminal, print a line for each change.",
)
@click.argument("name")
@click.option("--interval", type=SECONDS, default=2.0, help="time between two readings (default 2)")
@cluster_options
@runs
async def watch_job(options: Options) -> int:
    """0 when the job is Complete, 1 when it Failed."""
    from rich.console import Console  # needs packages that other commands do not
    from rich.live import Live

    from swerl_agent.jobs.view import JobView

    console, view = Console(), JobView(options.name)
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        if live:
            live.start()
        try:
            while not view.is_final:
                before = view.headline()
                view.observe(*await _reading(client, namespace, options.name))
                if live:
                    live.update(view.panel(), refresh=True)
                elif view.headline() != before:
                    print(f"{view.elapsed()}  {view.headline()}{view.details()}", flush=True)
                if not view.is_final:
                    await asyncio.sleep(options.interval)
        finally:
            if live:
                live.stop()
    return 0 if view.status.get("phase") == "Complete" else 1


async def _reading(client: KubeClient, namespace: str, name: str) -> tuple[Json, list[Json] | None]:
    job = await find_job(client, namespace, name)
    try:
        return job, await client.list(API_VERSION, "swesandboxes", namespace, labels=f"{JOB_LABEL}={name}")
    except Forbidden:
        return job, None
