"""`swerl doctor`: what the cluster lacks for swe-rl."""

from __future__ import annotations

import sys
from collections import Counter

import click

from swerl_agent.registry import RegistryLimits

from .command import Options, runs
from .images_check import registry_credentials, registry_options
from .options import cluster_options, open_client
from .output import is_json, output_option, print_result
from .pod_options import pull_secret_option
from .values import SECONDS


@click.command("doctor", help="Examine a cluster: what it lacks, and how to fix it.")
@click.option(
    "--image",
    multiple=True,
    metavar="REFERENCE",
    help="image that its registry must have; repeatable; probe Pods run the first (default: the operator's)",
)
@click.option("--runtime-class", metavar="NAME", help="RuntimeClass of the probe Pods")
@pull_secret_option
@click.option("--no-pods", is_flag=True, help="create no Pods: only read objects")
@click.option("--start-timeout", type=SECONDS, default=120.0, help="seconds for Pods to start (default 120)")
@output_option
@registry_options
@cluster_options
@runs
async def command(options: Options) -> int:
    """0 when no check failed, else 1; warnings do not count."""
    from swerl_agent.doctor import DoctorOptions, examine  # needs modules that other commands do not

    async with open_client(options) as client:
        namespace = options.namespace or client.namespace
        chosen = DoctorOptions(
            namespace,
            images=options.image,
            runtime_class=options.runtime_class,
            pull_secrets=options.pull_secret,
            pods=not options.no_pods,
            start_seconds=options.start_timeout,
            credentials=registry_credentials(options),
            registry_limits=RegistryLimits(retries=0, plain_http=frozenset(options.plain_http)),
        )
        found = await examine(client, chosen)
    counted = Counter(finding.status for finding in found)
    document = {"namespace": namespace, "findings": [one.as_json() for one in found]}
    print_result(options, document, (finding.as_text() for finding in found))
    if not is_json(options):
        summary = ", ".join(f"{counted[status]} {status}" for status in ("ok", "warning", "failed", "unknown"))
        print(f"swerl: {summary}", file=sys.stderr)
    return 1 if counted["failed"] else 0
