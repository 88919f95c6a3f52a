"""Parts of the control plane and the node go away while commands run and groups are being made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import Claim, PodGone, Sandbox, Session
from swerl_kube import KubeClient

from tests.chaos.components import Components
from tests.chaos.conftest import wait_until_nothing_left
from tests.control_plane.exec.conftest import connect, until

if TYPE_CHECKING:
    from tests.control_plane.exec.conftest import MakePod
    from tests.control_plane.sandboxes.conftest import User

pytestmark = pytest.mark.alone
SESSIONS, GROUPS = 8, 3
LEADER_UNAFFECTED = {"kubelet", "containerd"}  # without them the API server still answers the operator


@pytest.mark.parametrize(("component", "outage_seconds"), [("etcd", 30.0), ("kubelet", 3.0), ("containerd", 3.0)])
async def test_commands_run_once_and_groups_become_ready(
    component: str,
    outage_seconds: float,
    components: Components,
    claim: Callable[..., Claim],
    client: KubeClient,
    make_pod: MakePod,
    user: User,
    kept_running: list[str],
) -> None:
    pod = await make_pod()
    sessions = [Session(connect(client, pod)) for _ in range(SESSIONS)]
    commands = [
        asyncio.create_task(s.run(f"echo {n} >>/tmp/runs; sleep {outage_seconds + 5}; echo done {n}", timeout=400))
        for n, s in enumerate(sessions)
    ]
    reader = Session(connect(client, pod))

    async def all_run() -> bool:
        return len((await reader.run("cat /tmp/runs", timeout=60)).stdout.split()) == SESSIONS

    await until(all_run, "the commands run")
    claims = [
        asyncio.create_task(run_commands(lambda: claim(2), again=component == "containerd")) for _ in range(GROUPS)
    ]

    async def declared() -> bool:
        return len(await user.api.list("swerl.dev/v1alpha1", "swesandboxes", user.namespace)) == GROUPS

    await until(declared, "the groups are declared")
    await components.stop(component)
    await asyncio.sleep(outage_seconds)
    await components.start(component)

    results = await asyncio.wait_for(asyncio.gather(*commands), 300)
    assert [result.stdout for result in results] == [f"done {n}\n".encode() for n in range(SESSIONS)]
    assert sorted(await reader.read_file("/tmp/runs")) == sorted("".join(f"{n}\n" for n in range(SESSIONS)).encode())
    assert await asyncio.wait_for(asyncio.gather(*claims), 300) == [[b"0\n", b"1\n"]] * GROUPS
    assert not kept_running or component not in LEADER_UNAFFECTED, kept_running
    await asyncio.gather(*(session.close() for session in [reader, *sessions]))
    await wait_until_nothing_left(user, policies=False, ignore={f"pods/{pod['metadata']['name']}"})


async def run_commands(claim: Callable[[], Claim], *, again: bool) -> list[bytes]:
    """Output of a command in each sandbox of a claim, which is released afterwards.

    `again`: claim once more when a container failed before it ran anything, because its runtime was stopped.
    """

    async def use(number: int, sandbox: Sandbox) -> bytes:
        return (await sandbox.run(f"echo {number}", timeout=120)).stdout

    try:
        async with claim() as sandboxes:
            return list(await asyncio.gather(*(use(number, each) for number, each in enumerate(sandboxes))))
    except PodGone as error:
        if not again or "StartError" not in str(error):
            raise
    return await run_commands(claim, again=False)
