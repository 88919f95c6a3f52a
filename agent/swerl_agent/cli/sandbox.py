"""`swerl sandbox`: a sandbox for a person, or the one a rollout is in."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from swerl_api import Resources
from swerl_kube import KubeClient, NotFound

from swerl_agent.sandbox import Sandbox
from swerl_agent.sandbox.terminal import attach

from .options import add_cluster_options, open_client
from .pod_options import PULL_POLICIES, add_pull_option

WHERE_SANDBOXES_ARE = (
    "`kubectl get pods -l swerl.dev/role=sandbox` lists them, those of a SweSandbox NAME are swesb-NAME-0 and so on"
)


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`run` and `shell`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run one command in a sandbox of its own")
    run.add_argument("image", help="image of the sandbox")
    run.add_argument("command", help="shell command, run as `bash -lc` would")
    run.add_argument("--timeout", type=float, default=600.0, help="seconds (default 600)")
    run.set_defaults(run=run_command)
    shell = verbs.add_parser("shell", help="a terminal in a running sandbox, or in one of its own")
    which = shell.add_mutually_exclusive_group(required=True)
    which.add_argument("pod", nargs="?", help="name of a sandbox Pod (kubectl get pods -l swerl.dev/role=sandbox)")
    which.add_argument("--image", help="claim a sandbox of this image for as long as the shell runs")
    shell.set_defaults(run=open_shell)
    for verb in (run, shell):
        verb.add_argument("--workdir", default="/", help="where commands start (default /)")
        verb.add_argument("--egress", choices=["none", "allow"], default="none", help="network (default none)")
        verb.add_argument("--cpu", default="1", help="CPUs (default 1)")
        verb.add_argument("--memory", default="2Gi", help="memory (default 2Gi)")
        add_pull_option(verb)
        add_cluster_options(verb)


async def run_command(options: argparse.Namespace) -> int:
    """Print what the command printed; its exit code, 124 when it was stopped for its time."""
    async with open_client(options) as client, AsyncExitStack() as stack:
        [sandbox] = await _claimed(stack, client, options)
        result = await sandbox.run(options.command, timeout=options.timeout, max_output=64 << 20)
    sys.stdout.buffer.write(result.stdout)
    sys.stderr.buffer.write(result.stderr)
    if result.timed_out:
        print(f"swerl: stopped after {options.timeout:.0f} s", file=sys.stderr)
        return 124
    return result.exit_code


async def open_shell(options: argparse.Namespace) -> int:
    """The exit code of the shell."""
    if not _can_be_typed_at(sys.stdin.fileno()):
        raise argparse.ArgumentTypeError(
            "a shell reads from a terminal or a pipe, not from a file; `swerl sandbox run` runs one command"
        )
    async with open_client(options) as client, AsyncExitStack() as stack:
        namespace = options.namespace or client.namespace
        pod = options.pod or (await _claimed(stack, client, options))[0].name
        try:
            return await attach(client, namespace, pod)
        except NotFound as error:
            told = f"namespace {namespace} has no Pod {pod}; {WHERE_SANDBOXES_ARE}"
            raise NotFound("exec", error.status, error.reason, told) from error


def _can_be_typed_at(source: int) -> bool:
    mode = os.fstat(source).st_mode
    return os.isatty(source) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _claimed(stack: AsyncExitStack, client: KubeClient, options: argparse.Namespace) -> Sequence[Sandbox]:
    amounts: dict[str, str | int] = {"cpu": options.cpu, "memory": options.memory}
    claim = Sandbox.claim(
        options.image,
        client=client,
        namespace=options.namespace,
        kubeconfig=options.kubeconfig,
        job="swerl-cli",
        workdir=options.workdir,
        egress=options.egress,
        image_pull_policy=PULL_POLICIES[options.pull],
        resources=Resources(requests=amounts, limits=amounts),
    )
    return await stack.enter_async_context(claim)
