"""`swerl doctor`: what the cluster lacks for swe-rl."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from swerl_agent.registry import RegistryLimits

from .images_check import add_registry_options, registry_credentials
from .options import add_cluster_options, open_client
from .values import seconds


def add_parser(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="REFERENCE",
        help="image that its registry must have; repeatable; probe Pods run the first (default: the operator's)",
    )
    parser.add_argument("--runtime-class", metavar="NAME", help="RuntimeClass of the probe Pods")
    parser.add_argument(
        "--pull-secret", action="append", default=[], metavar="NAME", help="image pull Secret; repeatable"
    )
    parser.add_argument("--no-pods", action="store_true", help="create no Pods: only read objects")
    parser.add_argument("--start-timeout", type=seconds, default=120.0, metavar="N", help="seconds for Pods to start")
    parser.add_argument("--output", choices=["text", "json"], default="text", help="default: text")
    add_registry_options(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=report)


async def report(options: argparse.Namespace) -> int:
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
    if options.output == "json":
        print(json.dumps({"namespace": namespace, "findings": [one.as_json() for one in found]}, indent=2))
    else:
        print(*(finding.as_text() for finding in found), sep="\n")
        summary = ", ".join(f"{counted[status]} {status}" for status in ("ok", "warning", "failed", "unknown"))
        print(f"swerl: {summary}", file=sys.stderr)
    return 1 if counted["failed"] else 0
