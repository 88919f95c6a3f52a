"""`swerl sandbox ls` and `swerl sandbox cp`: sandboxes that exist, and their files."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from swerl_api.names import JOB_LABEL, ROLE_LABEL, ROLE_SANDBOX

from swerl_agent.jobs import table
from swerl_agent.jobs.pods import HEADS, sandbox_row
from swerl_agent.sandbox.copying import download, upload
from swerl_agent.visible import visible

from .command import Options, keeps, runs
from .options import cluster_options, open_client
from .output import output_option, print_result


@click.command("ls", help="List sandbox Pods with their task, job and state.")
@click.option("--job", metavar="NAME", help="sandboxes of this job")
@output_option
@cluster_options
@runs
async def list_sandboxes(options: Options) -> int:
    """0."""
    labels = f"{ROLE_LABEL}={ROLE_SANDBOX}" + (f",{JOB_LABEL}={options.job}" if options.job else "")
    async with open_client(options) as client:
        pods = await client.list("v1", "pods", options.namespace or client.namespace, labels=labels)
    now = datetime.now(UTC)
    rows = sorted((sandbox_row(pod, now) for pod in pods), key=lambda row: row.name)
    print_result(
        options, [row.as_json() for row in rows], table(HEADS, (row.columns() for row in rows)) if rows else ()
    )
    return 0


@click.command(
    "cp",
    help="Copy a file or folder from a running sandbox (POD:PATH TARGET), or to one (SOURCE POD:PATH).",
    short_help="copy files from or to a running sandbox",
)
@click.argument("source")
@click.argument("target")
@output_option
@cluster_options
@keeps("a download is complete or absent; an upload may be incomplete")
async def copy_files(options: Options) -> int:
    """0."""
    from_pod, to_pod = _split(options.source), _split(options.target)
    if bool(from_pod) == bool(to_pod):
        raise click.UsageError(
            "one of SOURCE and TARGET must be POD:PATH with an absolute path, as swesb-q-0:/testbed/a.py"
        )
    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        if from_pod:
            size, left_out = await download(client, namespace, *from_pod, Path(options.target))
        else:
            assert to_pod is not None
            size, left_out = await upload(client, namespace, to_pod[0], Path(options.source), to_pod[1]), []
    for entry in left_out:
        print(f"left out: {visible(entry)}", file=sys.stderr)
    document = {"source": options.source, "target": options.target, "bytes": size, "left_out": left_out}
    print_result(options, document, [f"{options.source} copied to {options.target} ({size} bytes)"])
    return 0


def _split(text: str) -> tuple[str, str] | None:
    """Pod and absolute path of POD:PATH; None for a path of this machine."""
    pod, colon, path = text.partition(":")
    return (pod, path) if colon and path.startswith("/") and "/" not in pod else None
