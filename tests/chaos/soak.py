"""SOAK_MINUTES of random clients; then nothing of it may be left, neither in the cluster nor in any process.

`make soak` runs it. It ends by itself: when the time is over, running work finishes, all groups are deleted, and
objects, file descriptors, sockets, asyncio tasks and processes in a Pod are counted against those before.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from swerl_agent.sandbox import Claim, SandboxLost, Session
from swerl_kube import KubeClient
from swerl_operator.sandboxes.manifests import idle_command

from tests.chaos.conftest import wait_until_nothing_left
from tests.conftest import kubectl
from tests.control_plane.exec.conftest import connect
from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import User

if TYPE_CHECKING:
    from tests.control_plane.exec.conftest import Json, MakePod

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
WORKERS = 3
REPORT = 60.0  # seconds between two lines on the terminal
QUIET = 25.0  # seconds after which idle connections are closed
DESCRIPTOR_MARGIN = 8  # descriptors more than before: connections kept for the next request
GROWTH = 1.5  # of the operator's memory, at most


@dataclass(frozen=True)
class ProcessResources:
    """What a process holds."""

    descriptors: int
    sockets: int
    megabytes: int

    @classmethod
    def of(cls, process: int) -> ProcessResources:
        targets = []
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):
                targets.append(str(entry.readlink()))
        resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return cls(len(targets), sum(target.startswith("socket:") for target in targets), resident >> 20)


class RandomClient:
    """The things that programs do to sandboxes, also without cleaning up."""

    def __init__(self, claim: Callable[..., Claim], client: KubeClient, user: User, pod: Json, kubeconfig: str) -> None:
        self._claim, self._client, self._user, self._pod, self._kubeconfig = claim, client, user, pod, kubeconfig
        self.done: Counter[str] = Counter()
        self.commands = 0
        self.actions: list[Callable[[], Awaitable[None]]] = [
            self.use,
            self.use,
            self.cancel_claim,
            self.delete_group,
            self.reconnect_session,
            self.kill_program,
        ]

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            action = random.choice(self.actions)
            await action()
            self.done[action.__name__] += 1

    async def use(self) -> None:
        """Claim some, use them, release one early."""
        async with self._claim(random.randint(1, 3)) as sandboxes:
            await asyncio.gather(*(self._commands(sandbox.session) for sandbox in sandboxes))
            await sandboxes[0].release()
            for sandbox in sandboxes[1:]:
                await sandbox.write("/tmp/file", b"x" * 100_000)
                assert len(await sandbox.read("/tmp/file")) == 100_000

    async def cancel_claim(self) -> None:
        """Stop to wait for a claim."""

        async def wait() -> None:
            async with self._claim(2):
                await asyncio.sleep(60)

        task = asyncio.create_task(wait())
        await asyncio.sleep(random.uniform(0, 6))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task

    async def delete_group(self) -> None:
        """Delete the group while a command runs."""
        async with self._claim(1) as [sandbox]:
            command = asyncio.create_task(sandbox.run("sleep 100", timeout=120))
            await asyncio.sleep(1)
            group = sandbox.name.removeprefix("swesb-").rpartition("-")[0]
            await self._user.delete(group)
            with pytest.raises(SandboxLost):
                await asyncio.wait_for(command, 30)

    async def reconnect_session(self) -> None:
        """Sessions in a Pod that stays, their streams cut."""
        async with Session(connect(self._client, self._pod)) as session:
            await self._commands(session)
            assert session._stream is not None
            await session._stream.close()
            await self._commands(session)

    async def kill_program(self) -> None:
        """A program is killed while it holds a sandbox."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).parent / "claimer.py"),
            self._user.namespace,
            env=os.environ | {"KUBECONFIG": self._kubeconfig},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 120), "the program ended"
        process.stdin.write(b'["sleep 100", 120]\n')
        await asyncio.sleep(1)
        process.kill()
        await process.wait()

    async def _commands(self, session: Session) -> None:
        for _ in range(random.randint(1, 8)):
            size = random.choice([0, 10, 100_000, 3_000_000])
            result = await session.run(f"head -c {size} /dev/zero; sleep 0.0{random.randint(0, 9)}", timeout=60)
            assert (result.exit_code, result.stdout_bytes) == (0, size)
            self.commands += 1
        timed_out = await session.run("sh -c 'sleep 60' & sleep 60", timeout=0.5)
        assert timed_out.timed_out


async def report(client: RandomClient, operator: Operator, started: float) -> None:
    while True:
        await asyncio.sleep(REPORT)
        print_state(f"{(time.monotonic() - started) / 60:.0f} min", client, operator)


def print_state(when: str, client: RandomClient, operator: Operator) -> None:
    print(f"{when}: {client.commands} commands, {dict(client.done)}; this process {ProcessResources.of(os.getpid())},"
          f" {len(asyncio.all_tasks())} tasks; operator {ProcessResources.of(operator.pid)}", flush=True)  # fmt: skip


def processes(kubeconfig: str, pod: Json) -> int:
    """How many run in the Pod, those that count them included."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    listing = kubectl(kubeconfig, "exec", "-n", namespace, name, "--", "sh", "-c", "ls -d /proc/[0-9]* | wc -l")
    return int(listing)


async def test_no_process_or_object_is_left(
    claim: Callable[..., Claim],
    client: KubeClient,
    user: User,
    operator: Operator,
    make_pod: MakePod,
    kubeconfig: str,
) -> None:
    pod = await make_pod(command=idle_command(int(MINUTES * 60) + 3600))
    in_pod, process = processes(kubeconfig, pod), operator.pid
    load = RandomClient(claim, client, user, pod, kubeconfig)
    for action in load.actions[1:]:
        await action()
    await wait_until_idle(user, pod)
    tasks, client_before, operator_before = names(), ProcessResources.of(os.getpid()), ProcessResources.of(process)

    started = time.monotonic()
    reporter = asyncio.create_task(report(load, operator, started))
    await asyncio.gather(*(load.run(started + MINUTES * 60) for _ in range(WORKERS)))
    reporter.cancel()
    with suppress(asyncio.CancelledError):
        await reporter
    await wait_until_idle(user, pod)
    print_state("at the end", load, operator)

    assert names() == tasks
    assert operator.alive and operator.pid == process, operator.log.read_text()[-4000:]
    for before, after in (
        (client_before, ProcessResources.of(os.getpid())),
        (operator_before, ProcessResources.of(process)),
    ):
        assert (
            after.descriptors <= before.descriptors + DESCRIPTOR_MARGIN
            and after.sockets <= before.sockets + DESCRIPTOR_MARGIN
        )
    assert ProcessResources.of(process).megabytes <= operator_before.megabytes * GROWTH
    assert processes(kubeconfig, pod) == in_pod


def names() -> Counter[Any]:
    """What the event loop still works on, by code."""
    return Counter(getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())


async def wait_until_idle(user: User, pod: Json) -> None:
    """Wait until deleted groups are gone; the remaining Pod is ignored."""
    await wait_until_nothing_left(user, 120, ignore={f"pods/{pod['metadata']['name']}"})
    await asyncio.sleep(QUIET)
    gc.collect()
