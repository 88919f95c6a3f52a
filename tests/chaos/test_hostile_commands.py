"""Commands that exhaust a sandbox: its session continues or ends with a typed error; its neighbours are unaffected."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from swerl_agent.sandbox import CommandResult, SandboxError, Session
from swerl_kube import KubeClient

from tests.chaos.components import Components
from tests.control_plane.exec.conftest import connect

if TYPE_CHECKING:
    from tests.control_plane.exec.conftest import MakePod

GIGABYTE = 10**9
SMALL_DISK = {"emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}
BOMB = "sh -c 'bomb() { bomb | bomb & }; bomb; sleep 60'"
BOMB_SECONDS = 5.0
BOMB_END_SECONDS = 60.0  # seconds until a bomb's session has reported its end
BOMB_RECOVERY_SECONDS = 180.0  # seconds until a session that continues has processes again
NEIGHBOUR = 5.0  # seconds a neighbour's command may take meanwhile


async def test_gigabyte_of_output(session: Session, client: KubeClient, make_pod: MakePod) -> None:
    text = f"head -c {GIGABYTE} /dev/zero | tr '\\0' x; echo end"
    async with Session(connect(client, await make_pod())) as neighbour:
        await neighbour.open()
        writing = asyncio.create_task(session.run(text, timeout=120, max_output=1 << 16))
        assert await slowest_answer(neighbour, writing) < NEIGHBOUR
        result = await writing
    assert (result.exit_code, result.stdout_bytes, len(result.stdout)) == (0, GIGABYTE + 4, 1 << 16)
    assert result.stdout.endswith(b"xend\n")
    assert (await session.run("echo on", timeout=30)).stdout == b"on\n"


async def test_output_of_nul_bytes(session: Session) -> None:
    result = await session.run("head -c 100000 /dev/zero; printf 'a\\000b' >&2", timeout=30)
    assert (result.stdout, result.stderr) == (bytes(100000), b"a\0b")
    assert (await session.run("echo on", timeout=30)).stdout == b"on\n"


@pytest.fixture
async def small(client: KubeClient, make_pod: MakePod) -> Any:
    """A session in a Pod whose every writable place is a small disk."""
    mounts = [{"name": "small", "mountPath": path, "subPath": path[1:]} for path in ("/run", "/tmp", "/var/tmp")]
    rest = {"readOnlyRootFilesystem": True}
    pod = await make_pod(volumes=[{"name": "small", **SMALL_DISK}], volumeMounts=mounts, securityContext=rest)
    async with Session(connect(client, pod)) as session:
        yield session


async def attempt(session: Session, command: str, timeout: float = 30) -> CommandResult | SandboxError:
    try:
        return await session.run(command, timeout=timeout)
    except SandboxError as error:
        return error


async def test_full_disk(small: Session) -> None:
    await small.run("echo first", timeout=30)
    await attempt(small, "head -c 16777216 /dev/zero >/tmp/much")
    result = await attempt(small, "echo ran; echo ran >/dev/shm/ran")
    ran = isinstance(result, CommandResult)
    freed = await attempt(small, "rm -f /tmp/much; cat /dev/shm/ran")
    print(f"on a full disk: {result!r}, then {freed!r}")
    assert isinstance(freed, SandboxError) or (freed.stdout == b"ran\n") == ran, (result, freed)
    if isinstance(freed, CommandResult):
        assert (await small.run("echo on", timeout=30)).stdout == b"on\n"


async def test_full_shared_memory(client: KubeClient, make_pod: MakePod) -> None:
    async with Session(connect(client, await make_pod())) as session:
        filled = await session.run("head -c 134217728 /dev/zero >/dev/shm/much", timeout=30)
        assert filled.exit_code != 0
        for number in range(3):
            assert (await session.run(f"echo {number}", timeout=30)).stdout == f"{number}\n".encode()
        assert (await session.run("sleep 60", timeout=2)).timed_out
        assert (await session.run("exit 3", timeout=30)).exit_code == 3
        assert (await session.run("rm /dev/shm/much; echo on", timeout=30)).stdout == b"on\n"


# Memory runs out without a limit of processors: Linux 6.18 throttles what it killed there too, for minutes.
@pytest.mark.parametrize(
    ("processes", "limits"),
    [(4096, {"memory": "64Mi"}), (150, {"memory": "64Mi", "cpu": "1"})],
    ids=["memory runs out", "processes run out"],
)
async def test_fork_bomb(
    processes: int, limits: dict[str, str], client: KubeClient, make_pod: MakePod, components: Components
) -> None:
    resources = {"requests": {"cpu": "250m"}, "limits": limits}
    target, beside = await asyncio.gather(make_pod(resources=resources), make_pod())
    components.limit_processes(target["metadata"]["uid"], processes)
    async with Session(connect(client, target)) as session, Session(connect(client, beside)) as neighbour:
        await asyncio.gather(session.open(), neighbour.open())
        started = time.monotonic()
        bomb = asyncio.create_task(attempt(session, BOMB, BOMB_SECONDS))
        slowest = await slowest_answer(neighbour, bomb)
        how = await bomb
        print(f"after {time.monotonic() - started:.0f} s: {how!r}; the neighbour's slowest took {slowest:.1f} s")
        assert time.monotonic() - started < BOMB_END_SECONDS and slowest < NEIGHBOUR
        assert isinstance(how, SandboxError) or how.exit_code != 0
        # The container may run out of memory a moment after the command. Or it has no process left for a while: those
        # that were killed need the processor to end, of which a busy machine gives this Pod little.
        result = await attempt(session, "echo on")
        while (
            isinstance(result, CommandResult)
            and result.timed_out
            and time.monotonic() - started < BOMB_RECOVERY_SECONDS
        ):
            result = await attempt(session, "echo on")
        assert isinstance(result, SandboxError) or result.stdout == b"on\n", result


async def slowest_answer(session: Session, until: asyncio.Task[Any]) -> float:
    """Seconds of the slowest of many commands in `session`."""
    slowest = 0.0
    while not until.done():
        started = time.monotonic()
        assert (await session.run("echo on", timeout=30)).stdout == b"on\n"
        slowest = max(slowest, time.monotonic() - started)
        await asyncio.sleep(0.5)
    return slowest
