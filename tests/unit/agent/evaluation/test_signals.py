"""The `swerl` command ends in order on a signal."""

from __future__ import annotations

import signal
import subprocess
import sys

import click
import pytest
from swerl_agent.cli import root

from tests.unit.agent.cli.command_tree import commands

READING = {
    *("validate", "list", "describe", "watch", "logs", "metrics", "compare", "doctor", "completion", "view"),
    *("tasks list", "tasks images", "images check", "images missing", "sandbox ls"),
    *(f"trajectories {verb}" for verb in ("ls", "show", "diff", "audit")),
}
PROGRAM = """
import asyncio, sys
from swerl_agent import cli
from swerl_agent.cli.command import keeps

@cli.root.command("work")
@keeps("the work so far is in FOLDER")
async def work(options):
    print("begun", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("cleaning up", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("written", flush=True)

sys.exit(cli.main(["work"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_running_work_is_ended_in_order(number: signal.Signals, code: int) -> None:
    program = started()
    program.send_signal(number)
    stdout, stderr = program.communicate("\n", timeout=30)
    assert (stdout, program.returncode) == ("cleaning up\nwritten\n", code)
    ended = "ended by SIGTERM" if number == signal.SIGTERM else "interrupted"
    assert stderr == f"swerl: {ended}; the work so far is in FOLDER\n"


def test_second_sigterm_does_not_cut_the_clean_up_short() -> None:
    program = started()
    program.send_signal(signal.SIGTERM)
    assert program.stdout is not None and program.stdout.readline() == "cleaning up\n"
    program.send_signal(signal.SIGTERM)  # as GNU timeout does: to the process, then to its group
    stdout, stderr = program.communicate("\n", timeout=30)
    assert (stdout, program.returncode) == ("written\n", 143) and stderr.startswith("swerl: ended by SIGTERM;")


def started() -> subprocess.Popen[str]:
    """The program at its work."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, **pipes)
    assert program.stdout is not None and program.stdout.readline() == "begun\n"
    return program


def test_every_command_that_writes_says_what_a_signal_leaves() -> None:
    """The others only read: after a signal they say that nothing is kept."""
    assert {name for name, command in commands(root) if not kept(command)} == READING


def kept(command: click.Command) -> str:
    assert command.callback is not None
    invocation = command.callback(**dict.fromkeys(parameter.name or "" for parameter in command.params))
    return str(invocation.kept)
