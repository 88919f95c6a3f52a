"""Options of the Pods that run episodes and gradings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import click
from swerl_api import GradingSpec, Resources, SandboxSpec
from swerl_api.base import Egress, PullPolicy

from swerl_agent.sandbox.group import CLAIM_TIMEOUT

from .command import Decorator, Options, together
from .values import PAIR, POSITIVE, QUANTITY, checked

AFTERWARDS = 180  # seconds of a sandbox's lifetime for what comes after its episode
PULL_POLICIES: Mapping[str, PullPolicy] = {"missing": "IfNotPresent", "never": "Never"}
SANDBOX, GRADING = SandboxSpec(), GradingSpec()
GRADING_OPTIONS = {  # seconds, CPU and memory, by the prefix of their names
    "": ("--timeout", "--cpu", "--memory"),
    "grading-": ("--grading-timeout", "--grading-cpu", "--grading-memory"),
}


def _amounts(resource: str) -> str:
    standard = SANDBOX.resources
    return f"{standard.requests[resource]} and {standard.limits[resource]}"


pull_option = click.option(
    "--pull",
    type=click.Choice(list(PULL_POLICIES)),
    default="missing",
    help="never: an image that the node does not have is an error at once (default: pull it)",
)
egress_option = click.option(
    "--egress",
    type=click.Choice(get_args(Egress)),
    default=SANDBOX.egress,
    help=f"network: none, internet (public addresses only) or allow (the cluster's); default: {SANDBOX.egress}",
)
pull_secret_option = click.option("--pull-secret", multiple=True, metavar="NAME", help="image pull Secret; repeatable")
pod_options = together(  # where Pods of task images run, and how they are pulled
    click.option(
        "--workdir", default=SANDBOX.workdir, help=f"folder of the repository in the images ({SANDBOX.workdir})"
    ),
    click.option("--runtime-class", metavar="NAME", help="RuntimeClass of sandbox and grading Pods"),
    click.option("--node-selector", type=PAIR, multiple=True, help="label of the nodes that may run them; repeatable"),
    pull_secret_option,
    pull_option,
)
sandbox_options = together(  # what a sandbox may use, besides `pod_options`
    click.option("--sandbox-cpu", type=QUANTITY, help=f"request and limit of a sandbox (default {_amounts('cpu')})"),
    click.option("--sandbox-memory", type=QUANTITY, help=f"request and limit (default {_amounts('memory')})"),
    egress_option,
)

jobs_option = click.option("--jobs", "-j", type=POSITIVE, default=4, help="grading Jobs at the same time (default 4)")


def pod_settings(options: Options, **more: Any) -> SandboxSpec:
    """What the options of `pod_options` say, and `more`; raises UsageError."""
    return checked(
        SandboxSpec,
        workdir=options.workdir,
        runtime_class_name=options.runtime_class,
        node_selector=dict(options.node_selector),
        pull_secrets=options.pull_secret,
        image_pull_policy=PULL_POLICIES[options.pull],
        **more,
    )


def sandbox_settings(options: Options) -> SandboxSpec:
    """Sandboxes that outlive an episode of these options; raises UsageError."""
    lifetime = int(CLAIM_TIMEOUT) + options.episode_timeout + AFTERWARDS  # pulling its image uses up lifetime, too
    standard = SANDBOX.resources
    given = {"cpu": options.sandbox_cpu, "memory": options.sandbox_memory}
    amounts = {name: amount for name, amount in given.items() if amount}
    resources = {"requests": {**standard.requests, **amounts}, "limits": {**standard.limits, **amounts}}
    return pod_settings(options, lifetime_seconds=lifetime, resources=resources, egress=options.egress)


def grading_options(prefix: str = "", *, timeout: int = GRADING.timeout_seconds) -> Decorator:
    """How grading Jobs run; `prefix` stands before names that would say nothing of gradings."""
    seconds, cpu, memory = GRADING_OPTIONS[prefix]
    most = GRADING.resources.limits
    return together(
        click.option(seconds, type=POSITIVE, default=timeout, help=f"seconds for a task's tests (default {timeout})"),
        click.option(cpu, type=QUANTITY, default=most["cpu"], help=f"CPU of a grading Pod (default {most['cpu']})"),
        click.option(memory, type=QUANTITY, default=most["memory"], help=f"its memory (default {most['memory']})"),
        click.option(
            "--contrast",
            type=click.Choice(get_args(GradingSpec.model_fields["contrast"].annotation)),
            default=GRADING.contrast,
            help=f"whether a patch that passes is run once more with altered tests (default {GRADING.contrast})",
        ),
    )


def grading_settings(options: Options, prefix: str = "", *, jobs: int, cache: bool = True) -> GradingSpec:
    """What the options of `grading_options` say; raises UsageError."""
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
