"""`swerl sandbox`: runs a command or a shell in a new sandbox, or a shell in the sandbox of a rollout."""

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
from .values import quantity, seconds

LIST_SANDBOXES = (
    "list sandbox Pods with `kubectl get pods -l swerl.dev/role=sandbox`; Pods of SweSandbox NAME are swesb-NAME-0, ..."
)


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`run` and `shell`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run one command in a new sandbox")
    run.add_argument("image", help="image of the sandbox")
    run.add_argument("command", help="shell command, as for `bash -lc`")
    run.add_argument("--timeout", type=seconds, default=600.0, help="seconds (default 600)")
    run.set_defaults(run=run_command)
    shell = verbs.add_parser("shell", help="open a terminal in a running sandbox, or in a new one")
    which = shell.add_mutually_exclusive_group(required=True)
    which.add_argument("pod", nargs="?", help="name of a sandbox Pod (kubectl get pods -l swerl.dev/role=sandbox)")
    which.add_argument("--image", help="create a sandbox of this image; it is deleted when the shell ends")
    shell.set_defaults(run=open_shell)
    for verb in (run, shell):
        verb.add_argument("--workdir", default="/", help="working directory (default /)")
        verb.add_argument("--egress", choices=["none", "allow"], default="none", help="network (default none)")
        verb.add_argument("--cpu", type=quantity, default="1", help="CPUs (default 1)")
        verb.add_argument("--memory", type=quantity, default="2Gi", help="memory (default 2Gi)")
        add_pull_option(verb)
        add_cluster_options(verb)


async def run_command(options: argparse.Namespace) -> int:
    """Print the command's output; its exit code, 124 after a timeout."""
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
    """Open the shell; its exit code."""
    if not _is_terminal_or_pipe(sys.stdin.fileno()):
        raise argparse.ArgumentTypeError(
            "standard input is a file; a shell needs a terminal or a pipe: use `swerl sandbox run` to run one command"
        )
    async with open_client(options) as client, AsyncExitStack() as stack:
        namespace = options.namespace or client.namespace
        pod = options.pod or (await _claimed(stack, client, options))[0].name
        try:
            return await attach(client, namespace, pod)
        except NotFound as error:
            message = f"namespace {namespace} has no Pod {pod}; {LIST_SANDBOXES}"
            raise NotFound("exec", error.status, error.reason, message) from error


def _is_terminal_or_pipe(source: int) -> bool:
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
