"""Killed and restarted programs continue their work; a command with an id runs once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from swerl_agent.sandbox import LeaseHeld, LeaseLost, Sandbox, Session
from swerl_agent.sandbox.lease import LeaseKeeper
from swerl_kube import KubeClient

from tests.control_plane.exec.conftest import IMAGE, SMALL, connect, until
from tests.control_plane.operator_process import Operator

if TYPE_CHECKING:
    from .conftest import Json

TOKEN = "a-session-of-two-programs"
FIRST = """
import asyncio
from swerl_kube import KubeClient
from swerl_agent.sandbox import PodConnector, Session

async def main():
    async with KubeClient.from_environment({kubeconfig!r}) as client:
        async with Session(PodConnector(client, {namespace!r}, {pod!r}, uid={uid!r}), token={token!r}) as session:
            await session.run("echo prepare >>/tmp/runs; echo prepared", timeout=60, id="prepare")
            print("prepared", flush=True)
            build = "echo build >>/tmp/runs; until [ -e /tmp/go ]; do sleep 0.1; done; wc -c; exit 3"
            await session.run(build, timeout=60, id="build", stdin=bytes(5000))

asyncio.run(main())
"""
CLAIM = """
import time
from swerl_agent.sandbox.blocking import BlockingSandbox
with BlockingSandbox.claim({image!r}, name={name!r}, outlive=90, namespace={namespace!r}, kubeconfig={kubeconfig!r},
                           resources={resources!r}) as [sandbox]:
    sandbox.run("echo run >>/tmp/runs; echo $RANDOM$RANDOM >/tmp/secret; cat /tmp/secret", id="secret")
    print(sandbox.name, flush=True)
    time.sleep(600)
"""


@asynccontextmanager
async def program(text: str, **values: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program with the first line of its output read; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", text.format(**values), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def first_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 120)).decode().strip()


async def test_session_is_taken_over_by_another_process(
    client: KubeClient, namespace: str, kubeconfig: str, pod: Json
) -> None:
    metadata = pod["metadata"]
    values = {"kubeconfig": kubeconfig, "namespace": namespace, "pod": metadata["name"], "uid": metadata["uid"]}
    async with Session(connect(client, pod)) as watcher, program(FIRST, token=TOKEN, **values) as first:
        assert await first_line(first) == "prepared"

        async def command_started() -> bool:
            return b"build" in (await watcher.run("cat /tmp/runs", timeout=30)).stdout

        await until(command_started, "the build runs")
        first.kill()
        await first.wait()
        async with Session(connect(client, pod), token=TOKEN) as session:
            finished = await session.run("echo prepare >>/tmp/runs; echo prepared", timeout=60, id="prepare")
            assert finished.stdout == b"prepared\n"
            waiting = asyncio.create_task(session.run("echo build >>/tmp/runs", timeout=60, id="build"))
            await asyncio.sleep(1)
            assert not waiting.done()
            await watcher.run("touch /tmp/go", timeout=30)
            running = await waiting
            assert (running.exit_code, running.stdout) == (3, b"5000\n")
            new = await session.run("echo test >>/tmp/runs; echo tested", timeout=60, id="test")
            assert new.stdout == b"tested\n"
            assert await session.read_file("/tmp/runs") == b"prepare\nbuild\ntest\n"


async def test_overtaken_program_releases_the_lease(client: KubeClient, namespace: str, kubeconfig: str) -> None:
    first, second = (
        LeaseKeeper(namespace, "shared", holder=holder, kubeconfig=kubeconfig, interval=0.5)
        for holder in ("one", "two")
    )
    for keeper in (first, second):
        keeper.start()
        await asyncio.to_thread(keeper.wait_held)
        await asyncio.sleep(2)  # some renewals
    with pytest.raises(LeaseLost, match="taken over by two"):
        await asyncio.wait_for(asyncio.wrap_future(first.lost), 10)
    first.stop()
    await asyncio.sleep(1)
    assert not second.lost.done()
    lease = await client.get("coordination.k8s.io/v1", "leases", namespace, "shared")
    assert lease["spec"]["holderIdentity"] == "two"
    await asyncio.to_thread(second.stop)


async def test_restarted_program_gets_its_sandboxes_back(
    client: KubeClient, namespace: str, kubeconfig: str, operator: Operator
) -> None:
    claim_options: dict[str, Any] = {"namespace": namespace, "kubeconfig": kubeconfig, "resources": SMALL}
    options = claim_options | {"name": "again", "outlive": 90}
    async with program(CLAIM, image=IMAGE, name="again", **claim_options) as first:
        name = await first_line(first)
        claim = Sandbox.claim(IMAGE, **options)
        with pytest.raises(LeaseHeld, match=f"/{first.pid}"):
            await claim.__aenter__()
        first.kill()
        await first.wait()
    with pytest.raises(ValueError, match="differs in workdir"):
        await Sandbox.claim(IMAGE, **options, workdir="/srv").__aenter__()
    async with claim as [sandbox]:
        assert claim.taken_over and sandbox.name == name
        secret = await sandbox.run("echo never", id="secret")
        assert secret.stdout == await sandbox.read("/tmp/secret") and len(secret.stdout) > 4
        assert await sandbox.read("/tmp/runs") == b"run\n"
        assert (await sandbox.run("id -un", user="nobody")).stdout == b"nobody\n"
        assert (await sandbox.run("wc -c", stdin=bytes(10 << 20))).stdout.strip() == b"10485760"
    fresh = Sandbox.claim(IMAGE, **options)
    async with fresh as [sandbox]:
        assert not fresh.taken_over and (await sandbox.run("cat /tmp/runs")).exit_code == 1
