"""`swerl list`, `describe`, `suspend`, `resume`, `retry`, `cancel`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import click
from swerl_kube import KubeClient

from swerl_agent import jobs

from ..command import Options, keeps, runs, together
from ..options import cluster_options, open_client
from ..output import output_option, print_progress, print_result
from ..values import NATURAL

name_argument = click.argument("name")
job_options = together(output_option, cluster_options)
asks = keeps("the API server may have the change: `swerl describe` shows the job")


@click.command("list", help="List the SweRLJobs of a namespace, and why a job does not train.")
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="list all namespaces")
@job_options
@runs
async def list_jobs(options: Options) -> int:
    """0."""
    async with open_client(options) as client:
        namespace = None if options.everywhere else options.namespace or client.namespace
        found = await jobs.list_jobs(client, namespace)
    now = datetime.now(UTC)
    rows = sorted((jobs.job_row(job, now) for job in found), key=lambda row: (row.namespace, row.name))
    heads = ("NAMESPACE", *jobs.HEADS) if options.everywhere else jobs.HEADS
    cells = [((row.namespace,) if options.everywhere else ()) + row.columns() for row in rows]
    if not rows:
        print(f"no SweRLJobs in {namespace or 'any namespace'}", file=sys.stderr)
    print_result(options, [row.as_json() for row in rows], jobs.table(heads, cells) if rows else ())
    return 0


@click.command("describe", help="Show what the SweRLJob NAME does, and why it does not train.")
@name_argument
@job_options
@runs
async def describe_job(options: Options) -> int:
    """0."""
    async with open_client(options) as client:
        found = await jobs.describe(client, options.namespace or client.namespace, options.name)
    print_result(options, found.as_json(), jobs.description_lines(found))
    return 0


@click.command("suspend", help="Stop the SweRLJob NAME and free its GPUs; its checkpoints stay.")
@name_argument
@job_options
@asks
async def suspend_job(options: Options) -> int:
    """0."""
    changed = "will be suspended; `swerl resume {name}` continues it"
    return await _changed(options, jobs.suspend, changed, "is suspended")


@click.command("resume", help="Continue the suspended SweRLJob NAME from its newest checkpoint.")
@name_argument
@job_options
@asks
async def resume_job(options: Options) -> int:
    """0."""
    changed = "will start its next attempt; `swerl watch {name}` follows it"
    return await _changed(options, jobs.resume, changed, "is not suspended")


@click.command("retry", help="Start another attempt of the failed SweRLJob NAME from its newest checkpoint.")
@name_argument
@job_options
@asks
async def retry_job(options: Options) -> int:
    """0."""
    return await _changed(options, jobs.retry, "will start another attempt; `swerl watch {name}` follows it")


@click.command("cancel", help="Delete the SweRLJob NAME with its Pods. Its files on the volume stay.")
@name_argument
@click.option("--yes", "-y", is_flag=True, help="skip the confirmation")
@click.option("--wait", type=NATURAL, default=120, metavar="N", help="seconds to wait for its Pods (default 120)")
@job_options
@keeps("the job may be deleted: `swerl list` shows those that are left")
async def cancel_job(options: Options) -> int:
    """0 when the job and its Pods are gone, 1 when Pods are left or the user answered no."""
    name = options.name
    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        row = jobs.job_row(await jobs.find_job(client, namespace, name), datetime.now(UTC))
        if not options.yes and not _confirmed(f"SweRLJob {name} is {row.phase}. Delete it? It cannot be resumed"):
            return 1
        print_progress(options, f"deleting SweRLJob {name} and its Pods")
        gone = await jobs.cancel(client, namespace, name, seconds=options.wait)
    left = "" if gone else f"; after {options.wait} s some of its Pods are still ending"
    print_result(options, {"name": name, "namespace": namespace, "gone": gone}, [f"SweRLJob {name} is deleted{left}"])
    return 0 if gone or not options.wait else 1


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("standard input is not a terminal; give --yes")
    return click.confirm(question, err=True)


async def _changed(
    options: Options, change: Callable[[KubeClient, str, str], Awaitable[object]], text: str, otherwise: str = ""
) -> int:
    """0; prints `text`, or `otherwise` where `change` answers False."""
    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        changed = await change(client, namespace, options.name)
    words = f"{otherwise}; nothing changed" if changed is False else text.format(name=options.name)
    line = f"SweRLJob {options.name} {words}"
    print_result(options, {"name": options.name, "namespace": namespace}, [line])
    return 0
