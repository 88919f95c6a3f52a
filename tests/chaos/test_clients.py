"""Programs that use sandboxes are killed, or run while the wall clock jumps."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import wait_until_nothing_left
from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import User

FOLDER = Path(__file__).parent
CLEANUP_SECONDS = 60.0  # seconds until nothing of a killed program is left
# Jumps of the clock and how long it stays there, in seconds: behind by more than a Lease lasts (but less than the age
# of certificates), longer than the operator's patience with a Lease that looks expired; ahead; right.
CLOCK_JUMPS = ((-90, 17), (3690, 5), (-3600, 5))


@pytest.fixture
async def start_client(kubeconfig: str, namespace: str, operator: Operator) -> Any:
    """Starts tests/chaos/claimer.py and returns it when its sandboxes are there."""
    started: list[asyncio.subprocess.Process] = []

    async def start(**environment: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(FOLDER / "claimer.py"),
            namespace,
            env=os.environ | {"KUBECONFIG": kubeconfig} | environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        started.append(process)
        assert await next_line(process) == "claimed"
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def next_line(process: asyncio.subprocess.Process, seconds: float = 90) -> Any:
    """The next line the program printed, from JSON."""
    assert process.stdout is not None
    return json.loads(await asyncio.wait_for(process.stdout.readline(), seconds))


async def run_in_program(process: asyncio.subprocess.Process, *, command: str, timeout: float) -> Any:
    """What `command` did in the program's sandbox."""
    assert process.stdin is not None
    process.stdin.write(json.dumps([command, timeout]).encode() + b"\n")
    return await next_line(process)


async def test_killed_program_leaves_no_object(start_client: Any, user: User) -> None:
    program = await start_client()
    assert (await run_in_program(program, command="echo on", timeout=30))["stdout"] == "on\n"
    program.kill()
    killed = time.monotonic()
    await wait_until_nothing_left(user, CLEANUP_SECONDS, policies=False)
    print(f"gone after {time.monotonic() - killed:.0f} s")


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that shifts the wall clock, and only that one, by the seconds its file holds at that moment."""
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(FOLDER / "clock.c")], check=True)
    return library


async def test_clock_jump_has_no_effect(start_client: Any, user: User, clock: Path, tmp_path: Path) -> None:
    shift = tmp_path / "shift"
    shift.write_text("0\n")
    program = await start_client(LD_PRELOAD=str(clock), CLOCK_SHIFT=str(shift))
    for jump_seconds, sleep_seconds in CLOCK_JUMPS:
        started = time.monotonic()
        command = asyncio.create_task(
            run_in_program(program, command=f"sleep {sleep_seconds}; echo on", timeout=sleep_seconds + 8)
        )
        await asyncio.sleep(1)
        now = int(shift.read_text()) + jump_seconds
        shift.write_text(f"{now}\n")
        answer = await command
        assert (answer["stdout"], answer["timed_out"]) == ("on\n", False), f"after a jump of {jump_seconds} s"
        assert abs(answer["wall"] - (time.time() + now)) < 30, "the program saw the shifted clock"
        assert time.monotonic() - started < sleep_seconds + 8
    timed_out = await run_in_program(program, command="sleep 60", timeout=2)
    assert timed_out["timed_out"] and timed_out["duration"] < 10
    assert len(await user.api.list("v1", "pods", user.namespace, labels="swerl.dev/sandbox")) == 1
