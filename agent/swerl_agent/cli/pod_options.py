"""Options of the Pods that run episodes and gradings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, get_args

from swerl_api import GradingSpec, Resources, SandboxSpec
from swerl_api.base import PullPolicy

from swerl_agent.sandbox.group import CLAIM_TIMEOUT

from .values import checked, pair, positive, quantity

AFTERWARDS = 180  # seconds of a sandbox's lifetime for what comes after its episode
PULL_POLICIES: Mapping[str, PullPolicy] = {"missing": "IfNotPresent", "never": "Never"}
GRADING = GradingSpec()
GRADING_OPTIONS = {  # seconds, CPU and memory, by the prefix of their names
    "": ("--timeout", "--cpu", "--memory"),
    "grading-": ("--grading-timeout", "--grading-cpu", "--grading-memory"),
}


def add_pull_option(parser: argparse.ArgumentParser) -> None:
    """What becomes of an image that the node does not have."""
    parser.add_argument(
        "--pull",
        choices=list(PULL_POLICIES),
        default="missing",
        help="never: an image that the node does not have is an error at once (default: pull it)",
    )


def add_pod_options(parser: argparse.ArgumentParser) -> None:
    """Where Pods of task images run, and how they are pulled."""
    parser.add_argument("--workdir", default="/testbed", help="folder of the repository in the images (/testbed)")
    parser.add_argument("--runtime-class", metavar="NAME", help="RuntimeClass of sandbox and grading Pods")
    parser.add_argument(
        "--node-selector",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="label of the nodes that may run them; repeatable",
    )
    parser.add_argument(
        "--pull-secret", action="append", default=[], metavar="NAME", help="image pull Secret; repeatable"
    )
    add_pull_option(parser)


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    """What a sandbox may use, besides `add_pod_options`."""
    parser.add_argument(
        "--sandbox-cpu", type=quantity, metavar="CPU", help="request and limit of a sandbox (default 500m and 2)"
    )
    parser.add_argument(
        "--sandbox-memory", type=quantity, metavar="MEMORY", help="request and limit (default 1Gi and 4Gi)"
    )
    parser.add_argument("--egress", choices=["none", "allow"], default="none", help="network (default none)")


def pod_settings(options: argparse.Namespace, **more: Any) -> SandboxSpec:
    """What the options of `add_pod_options` say, and `more`; raises ArgumentTypeError."""
    return checked(
        SandboxSpec,
        workdir=options.workdir,
        runtime_class_name=options.runtime_class,
        node_selector=dict(options.node_selector),
        pull_secrets=options.pull_secret,
        image_pull_policy=PULL_POLICIES[options.pull],
        **more,
    )


def sandbox_settings(options: argparse.Namespace) -> SandboxSpec:
    """Sandboxes that outlive an episode of these options; raises ArgumentTypeError."""
    lifetime = int(CLAIM_TIMEOUT) + options.episode_timeout + AFTERWARDS  # pulling its image uses up lifetime, too
    standard = SandboxSpec().resources
    given = {"cpu": options.sandbox_cpu, "memory": options.sandbox_memory}
    amounts = {name: amount for name, amount in given.items() if amount}
    resources = {"requests": {**standard.requests, **amounts}, "limits": {**standard.limits, **amounts}}
    return pod_settings(options, lifetime_seconds=lifetime, resources=resources, egress=options.egress)


def add_grading_options(
    parser: argparse.ArgumentParser, prefix: str = "", *, timeout: int = GRADING.timeout_seconds
) -> None:
    """How grading Jobs run; `prefix` stands before names that would say nothing of gradings."""
    seconds, cpu, memory = GRADING_OPTIONS[prefix]
    parser.add_argument(
        seconds, type=positive, default=timeout, metavar="N", help=f"seconds for a task's tests (default {timeout})"
    )
    parser.add_argument(cpu, type=quantity, default="1", metavar="CPU", help="CPU of a grading Pod (default 1)")
    parser.add_argument(memory, type=quantity, default="2Gi", metavar="MEMORY", help="its memory (default 2Gi)")
    parser.add_argument(
        "--contrast",
        choices=get_args(GradingSpec.model_fields["contrast"].annotation),
        default=GRADING.contrast,
        help="whether a patch that passes is run once more with altered tests (default always)",
    )


def grading_settings(options: argparse.Namespace, prefix: str = "", *, jobs: int, cache: bool = True) -> GradingSpec:
    """What the options of `add_grading_options` say; raises ArgumentTypeError."""
    timeout, cpu, memory = (getattr(options, f"{prefix}{name}") for name in ("timeout", "cpu", "memory"))
    amounts = {"cpu": cpu, "memory": memory}
    return checked(
        GradingSpec,
        timeout_seconds=timeout,
        resources=checked(Resources, requests=amounts, limits=amounts),
        max_concurrent=jobs,
        cache=cache,
        contrast=options.contrast,
    )
