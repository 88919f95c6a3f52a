"""`swerl sandbox`: runs a command or a shell in a new sandbox, or a shell in the sandbox of a rollout."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import click
from swerl_api import Resources
from swerl_kube import KubeClient, NotFound

from swerl_agent.sandbox import CommandResult, Sandbox
from swerl_agent.sandbox.streamed import run_streamed
from swerl_agent.sandbox.terminal import attach, write_all

from .command import Group, Options, keeps, require_one, together
from .options import cluster_options, open_client
from .output import is_json, output_option, print_result
from .pod_options import PULL_POLICIES, egress_option, pull_option
from .values import QUANTITY, SECONDS

LIST_SANDBOXES = "`swerl sandbox ls` lists sandbox Pods; Pods of SweSandbox NAME are swesb-NAME-0, ..."
TIMED_OUT = 124  # exit code, as that of coreutils' timeout

command = Group(
    "sandbox",
    help="Run commands or a shell in sandboxes.",
    members={
        "ls": (".sandbox_files:list_sandboxes", "list sandbox Pods with their task, job and state"),
        "cp": (".sandbox_files:copy_files", "copy files from or to a running sandbox"),
    },
)
new_sandbox_options = together(
    click.option("--workdir", default="/", help="working directory (default /)"),
    egress_option,
    click.option("--cpu", type=QUANTITY, default="1", help="CPUs (default 1)"),
    click.option("--memory", type=QUANTITY, default="2Gi", help="memory (default 2Gi)"),
    pull_option,
    cluster_options,
)


@command.command(
    "run",
    help="Run one command in a new sandbox.\n\nCOMMAND: one shell command, as for `bash -lc`; several words after"
    " `--` are one command and its arguments: `swerl sandbox run IMAGE -- ls -la`.",
    short_help="run one command in a new sandbox",
)
@click.argument("image")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
@click.option("--timeout", type=SECONDS, default=600.0, help="time for the command (default 600)")
@output_option
@new_sandbox_options
@keeps("the command was stopped and its sandbox is deleted")
async def run_command(options: Options) -> int:
    """Print the command's output as it arrives (with `-o json` at the end); its exit code, 124 after a timeout."""
    async with open_client(options) as client, AsyncExitStack() as stack:
        [sandbox] = await _claimed(stack, client, options)
        code = await (_run_reported if is_json(options) else _run_streamed)(client, sandbox, options)
    if code is None:
        print(f"swerl: stopped after {options.timeout:.0f} s", file=sys.stderr)
    return TIMED_OUT if code is None else code


async def _run_reported(client: KubeClient, sandbox: Sandbox, options: Options) -> int | None:
    """Print exit code and outputs as one document; the exit code, None after a timeout."""
    result = await sandbox.run(_shell_command(options.words), timeout=options.timeout, max_output=64 << 20)
    print_result(options, _document(result))
    return None if result.timed_out else result.exit_code


async def _run_streamed(client: KubeClient, sandbox: Sandbox, options: Options) -> int | None:
    """Print outputs as they arrive; the exit code, None after a timeout."""
    namespace, command = options.namespace or client.namespace, _shell_command(options.words)
    try:
        return await run_streamed(client, namespace, sandbox.name, command, timeout=options.timeout, write=write_all)
    except TimeoutError:
        return None


@command.command(
    "shell",
    help="Open a terminal in a running sandbox, or in a new one.\n\n"
    "POD: name of a sandbox Pod (kubectl get pods -l swerl.dev/role=sandbox).",
    short_help="open a terminal in a running sandbox, or in a new one",
)
@click.argument("pod", required=False)
@click.option("--image", help="create a sandbox of this image; it is deleted when the shell ends")
@new_sandbox_options
@keeps("a sandbox that existed before is unchanged")
async def open_shell(options: Options) -> int:
    """Open the shell; its exit code."""
    require_one(options, pod="POD", image="--image")
    if not _is_terminal_or_pipe(sys.stdin.fileno()):
        raise click.UsageError(
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


def _shell_command(words: Sequence[str]) -> str:
    """One word is a shell command; several are a program and its arguments."""
    return words[0] if len(words) == 1 else shlex.join(words)


def _document(result: CommandResult) -> dict[str, Any]:
    output = {name: getattr(result, name).decode(errors="replace") for name in ("stdout", "stderr")}
    return {"exit_code": result.exit_code, "timed_out": result.timed_out, **output}


def _is_terminal_or_pipe(source: int) -> bool:
    mode = os.fstat(source).st_mode
    return os.isatty(source) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _claimed(stack: AsyncExitStack, client: KubeClient, options: Options) -> Sequence[Sandbox]:
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
