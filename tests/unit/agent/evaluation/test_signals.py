"""The `swerl` command ends in order on a signal."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

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
        print("written", flush=True)

sys.exit(cli.main(["work"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_running_work_is_ended_in_order(number: signal.Signals, code: int) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None and program.stdout.readline() == "begun\n"
    program.send_signal(number)
    stdout, stderr = program.communicate(timeout=30)
    assert (stdout, program.returncode) == ("written\n", code)
    assert stderr == ("swerl: ended by SIGTERM; the work so far is in FOLDER\n" if number == signal.SIGTERM else "")
