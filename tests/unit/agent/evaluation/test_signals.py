"""The `swerl` command ends in order on a signal."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys
from swerl_agent import cli
from swerl_agent.cli.command import runs

@cli.root.command("work")
@runs
async def work(options):
    print("begun", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("written", flush=True)

sys.exit(cli.main(["work"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_running_work_is_ended_in_order(number: signal.Signals, code: int) -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None and program.stdout.readline() == "begun\n"
    program.send_signal(number)
    assert program.communicate(timeout=30)[0] == "written\n"
    assert program.returncode == code
