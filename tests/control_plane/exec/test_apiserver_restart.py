"""The API server goes away in the middle of commands; every one of them runs exactly once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.kube import KubeClient
from swerl_agent.sandbox import CommandResult, Session

from tests.control_plane.exec.conftest import connect

if TYPE_CHECKING:
    from .conftest import MakePod

pytestmark = pytest.mark.alone
REPOSITORY = Path(__file__).parents[3]
SESSIONS, COMMANDS = 4, 15


async def test_no_command_runs_twice_and_none_is_lost(client: KubeClient, make_pod: MakePod, kubeconfig: str) -> None:
    pod = await make_pod()
    sessions = [Session(connect(client, pod)) for _ in range(SESSIONS)]

    async def episode(n: int, session: Session) -> list[CommandResult]:
        text = f"echo {{}} >>/tmp/runs-{n}; sleep 0.7; echo done {{}}"
        return [await session.run(text.replace("{}", str(i)), timeout=120) for i in range(COMMANDS)]

    tasks = [asyncio.create_task(episode(n, session)) for n, session in enumerate(sessions)]
    await asyncio.sleep(4)
    await restart_apiserver()
    for results in await asyncio.gather(*tasks):
        assert [result.stdout for result in results] == [f"done {i}\n".encode() for i in range(COMMANDS)]
    for n, session in enumerate(sessions):
        runs = await session.read_file(f"/tmp/runs-{n}")
        assert runs == "".join(f"{i}\n" for i in range(COMMANDS)).encode()
        await session.close()


async def restart_apiserver() -> None:
    """Kill and start the API server of the local cluster."""
    command = [sys.executable, "-m", "cluster", "restart", "apiserver"]
    done = await asyncio.to_thread(subprocess.run, command, cwd=REPOSITORY, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
