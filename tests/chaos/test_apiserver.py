"""The API server is killed: commands still run exactly once, and groups are created and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import Claim, Session
from swerl_kube import KubeClient

from tests.chaos.components import Components
from tests.chaos.conftest import wait_until_nothing_left
from tests.control_plane.exec.conftest import connect, until

if TYPE_CHECKING:
    from tests.control_plane.exec.conftest import MakePod
    from tests.control_plane.sandboxes.conftest import User

pytestmark = pytest.mark.alone
PODS, SESSIONS = 4, 50  # sessions per Pod
OUTAGE_SECONDS = 5.0  # seconds without an API server
# Kubernetes' garbage collector, refused its watches by a server that just began, asks again after up to a minute.
COLLECTED_WITHIN = 180
LARGE_RESOURCES = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


async def test_no_command_is_lost_and_none_runs_twice(
    client: KubeClient, make_pod: MakePod, components: Components
) -> None:
    pods = await asyncio.gather(*(make_pod(resources=LARGE_RESOURCES) for _ in range(PODS)))
    masters = [Session(connect(client, pod)) for pod in pods]
    await asyncio.gather(*(master.run("mkfifo /tmp/gate", timeout=60) for master in masters))
    sessions = [Session(connect(client, pod)) for pod in pods for _ in range(SESSIONS)]

    async def episode(number: int, session: Session) -> list[bytes]:
        waits = f"echo {number} >>/tmp/runs; read -r _ </tmp/gate; echo past {number}"
        command_text = f"echo {number} >>/tmp/again; echo on {number}"
        return [(await session.run(text, timeout=500)).stdout for text in (waits, command_text)]

    episodes = [asyncio.create_task(episode(number, session)) for number, session in enumerate(sessions)]

    async def all_run() -> bool:
        counts = await asyncio.gather(*(lines(master, "/tmp/runs") for master in masters))
        return sum(map(len, counts)) == len(sessions)

    await until(all_run, "two hundred commands run")
    half = PODS // 2
    for master in masters[:half]:  # these commands end while no server can receive their result
        await master.run(f"(sleep {OUTAGE_SECONDS / 2}; : >/tmp/gate) >/dev/null 2>&1 &", timeout=60)
    components.kill("apiserver")
    await asyncio.sleep(OUTAGE_SECONDS)
    await components.start("apiserver")
    await asyncio.gather(*(master.run(": >/tmp/gate", timeout=180) for master in masters[half:]))

    outputs = await asyncio.wait_for(asyncio.gather(*episodes), 300)
    assert outputs == [[f"past {n}\n".encode(), f"on {n}\n".encode()] for n in range(len(sessions))]
    for index, master in enumerate(masters):
        numbers = sorted(str(n) for n in range(index * SESSIONS, (index + 1) * SESSIONS))
        assert sorted(await lines(master, "/tmp/runs")) == sorted(await lines(master, "/tmp/again")) == numbers
    await asyncio.gather(*(session.close() for session in [*masters, *sessions]))


async def test_groups_change_while_the_watch_is_down(
    claim: Callable[..., Claim], user: User, components: Components, kept_running: list[str]
) -> None:
    async def open_and_close() -> bytes:
        async with claim(1) as [sandbox]:
            return (await sandbox.run("echo there", timeout=60)).stdout

    async with claim(2) as sandboxes:
        over = claim(1)
        await over.__aenter__()
        components.kill("apiserver")
        closing = asyncio.create_task(over.__aexit__(None, None, None))
        releasing = asyncio.create_task(sandboxes[0].release())
        coming = asyncio.create_task(open_and_close())
        await asyncio.sleep(OUTAGE_SECONDS)
        assert not closing.done() and not releasing.done() and not coming.done()
        await components.start("apiserver")
        await asyncio.wait_for(asyncio.gather(closing, releasing), 180)
        assert (await sandboxes[1].run("echo on", timeout=60)).stdout == b"on\n"
        assert await asyncio.wait_for(coming, 180) == b"there\n"
    await wait_until_nothing_left(user, COLLECTED_WITHIN, policies=False)


async def lines(session: Session, path: str) -> list[str]:
    return (await session.run(f"cat {path}", timeout=60)).stdout.decode().split()
