"""Commands run exactly once when streams fail, loops are killed and folders vanish."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import HandshakeFailed, PodGone, Session, SessionSettings, StateLost, Unresponsive
from swerl_agent.sandbox.session import DEFAULT_OUTPUT
from swerl_kube import Data
from swerl_kube.exec import STDOUT

from .conftest import until

if TYPE_CHECKING:
    from .conftest import ImageFolder

pytestmark = pytest.mark.parametrize("world", ["dash", "busybox"], indirect=True)


async def started(session: Session, file: Path, rest: str, timeout: float = 30) -> asyncio.Task[object]:
    """A running command that has written one line to `file`."""
    task: asyncio.Task[object] = asyncio.create_task(session.run(f"echo run >>{file}; {rest}", timeout=timeout))
    await until(lambda: file.exists() and file.read_text() == "run\n")
    return task


@pytest.mark.parametrize("end_input", [True, False], ids=["stdin closed", "half open"])
async def test_command_survives_a_lost_stream(
    session: Session, world: ImageFolder, tmp_path: Path, end_input: bool
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 1; echo done; exit 5")
    world.channel.cut(end_input=end_input)
    result = await task
    assert (result.exit_code, result.stdout) == (5, b"done\n")  # type: ignore[attr-defined]
    assert len(world.channels) == 2
    assert result.retries == 1  # type: ignore[attr-defined]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_lost_result_is_sent_again(session: Session, world: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", f"echo result; touch {tmp_path}/end; sleep 0.3")
    await until((tmp_path / "end").exists)
    world.channel._lost = True  # nothing arrives any more, and nobody has noticed
    await asyncio.sleep(1)
    world.channel.cut()
    assert (await task).stdout == b"result\n"  # type: ignore[attr-defined]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_stream_lost_while_idle_is_reopened(session: Session, world: ImageFolder) -> None:
    await session.run("true", timeout=20)
    world.channel.cut()
    result = await session.run("echo on", timeout=20)
    assert (result.stdout, result.retries) == (b"on\n", 1)
    assert len(world.channels) == 2 and len(world.state(session)) == 1


async def test_failed_handshakes_are_counted(session: Session, world: ImageFolder) -> None:
    world.refuse = HandshakeFailed("error dialing backend")
    result = await session.run("echo on", timeout=20)
    assert (result.stdout, result.retries, result.handshake_errors) == (b"on\n", 0, 1)
    assert (await session.run("echo on", timeout=20)).handshake_errors == 0


async def test_repeatedly_lost_streams_lose_no_command(session: Session, world: ImageFolder, tmp_path: Path) -> None:
    for n in range(12):
        task = asyncio.create_task(session.run(f"echo {n} >>{tmp_path}/runs; echo {n}", timeout=30, login=False))
        await asyncio.sleep(0.004 * n)
        if world.channels:
            world.channel.cut()
        assert (await task).stdout == f"{n}\n".encode()
    assert (tmp_path / "runs").read_text() == "".join(f"{n}\n" for n in range(12))


async def test_late_request_of_a_lost_stream_does_not_run_again(
    session: Session, world: ImageFolder, tmp_path: Path
) -> None:
    await session.run("true", timeout=20)
    old = world.channel
    size = len(old.sent)
    task = await started(session, tmp_path / "runs", "sleep 0.5")
    request = bytes(old.sent[size:])
    old._lost = True
    old._queue.put_nowait(None)
    await task
    assert old._process.stdin is not None
    old._process.stdin.write(request)
    await asyncio.sleep(0.5)
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_command_that_kills_all_processes_returns_137(
    session: Session, world: ImageFolder, tmp_path: Path
) -> None:
    await session.run("true", timeout=20)
    task = await started(session, tmp_path / "runs", "echo partial; sleep 60")
    await asyncio.sleep(0.3)
    for entry in Path("/proc").glob("[0-9]*"):
        environ = entry / "environ"
        try:
            if f"HOME={world.home}".encode() in environ.read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue
    result = await task
    assert (result.exit_code, result.stdout) == (137, b"partial\n")  # type: ignore[attr-defined]
    assert (tmp_path / "runs").read_text() == "run\n"
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"


async def test_command_that_removes_the_state_folders_has_a_result(session: Session, world: ImageFolder) -> None:
    await session.run("true", timeout=20)
    [folder], [notes] = world.state(session), world.notes(session)
    result = await session.run(f"echo before; rm -rf {folder} {notes}; echo after; echo err >&2", timeout=20)
    assert (result.stdout, result.stderr) == (b"before\nafter\n", b"err\n")
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"
    assert len(world.state(session)) == len(world.notes(session)) == 1


@pytest.mark.parametrize("suffix", ["", ".notes", "*"])
async def test_lost_record_raises_instead_of_running_twice(
    suffix: str, session: Session, world: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 1")
    world.forget(session, suffix)
    world.channel.cut()
    with pytest.raises(StateLost, match="may have run"):
        await task
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("settings", [SessionSettings(watchdog_after=0.1, watchdog_slack=0.0)], ids=[""])
async def test_pod_enforces_the_timeout_while_disconnected(
    session: Session, world: ImageFolder, tmp_path: Path
) -> None:
    task = asyncio.create_task(session.run(f"echo run >>{tmp_path}/runs; sleep 60", timeout=2))
    await until(lambda: world.channels and b"watchdog c1" in world.channel.sent)
    world.down = True
    world.channel.cut()
    [folder] = world.notes(session)
    [record] = folder.glob("c1-????????")
    await until(lambda: "rc" in record.read_text())
    world.down = False
    result = await task
    assert result.timed_out and (tmp_path / "runs").read_text() == "run\n"


async def test_deleted_pod_raises_at_once(session: Session, world: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    world.refuse = PodGone("pod x is gone")
    world.channel.cut()
    with pytest.raises(PodGone):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("settings", [SessionSettings(reconnect_window=1.0)], ids=[""])
async def test_unreachable_pod_raises_after_the_reconnect_window(
    session: Session, world: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    world.down = True
    world.channel.cut()
    with pytest.raises(HandshakeFailed, match="no stream to the sandbox for 1 s"):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("settings", [SessionSettings(kill_grace=1.0)], ids=[""])
async def test_frozen_loop_is_replaced(session: Session, world: ImageFolder, tmp_path: Path) -> None:
    await session.run("true", timeout=20)
    os.killpg(world.channel.pid, signal.SIGSTOP)
    result = await asyncio.wait_for(session.run(f"echo run >>{tmp_path}/runs; echo on", timeout=1), 30)
    assert result.stdout == b"on\n" and len(world.channels) == 2
    os.killpg(world.channels[0].pid, signal.SIGCONT)
    await asyncio.sleep(0.5)
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("settings", [SessionSettings(kill_grace=0.5, hello_after_kill=1.0)], ids=[""])
async def test_pod_that_ignores_the_kill_is_unresponsive(session: Session, world: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60", timeout=1)
    os.killpg(world.channel.pid, signal.SIGSTOP)
    (world.path / "sh").unlink()
    (world.path / "sh").write_text("#!/bin/sh\nexec sleep 30\n")
    (world.path / "sh").chmod(0o755)
    with pytest.raises(Unresponsive, match="after it was killed"):
        await asyncio.wait_for(task, 25)
    assert len(world.channels) == 2 and (tmp_path / "runs").read_text() == "run\n"
    os.killpg(world.channels[0].pid, signal.SIGCONT)


async def test_cancelled_command_is_killed_by_the_next_stream(
    session: Session, world: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", f"sleep 60; touch {tmp_path}/finished")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"
    [folder] = world.notes(session)
    [record] = folder.glob("c1-????????")
    await until(lambda: Path(f"{record}.timeout").exists() and "rc" in record.read_text())


async def test_large_output_is_truncated(session: Session) -> None:
    result = await session.run("head -c 104857600 /dev/zero; echo end", timeout=120)
    assert result.stdout_bytes == 104857604 and result.stdout.endswith(b"end\n")
    assert len(result.stdout) == DEFAULT_OUTPUT


async def test_endless_output_stops_at_the_file_limit(world: ImageFolder) -> None:
    async with Session(world, file_limit=4 << 20) as session:
        result = await session.run("yes", timeout=60)
        assert result.stdout_bytes == 4 << 20 and result.exit_code == 128 + signal.SIGXFSZ and not result.timed_out
    await world.finish()
    world.forget(session)


async def test_protocol_error_reopens_the_stream(session: Session, world: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 0.5; echo fine")
    world.channel._queue.put_nowait(Data(STDOUT, b"forged nonsense\n"))
    assert (await task).stdout == b"fine\n"  # type: ignore[attr-defined]
    assert len(world.channels) == 2


async def test_sessions_share_the_event_loop(world: ImageFolder) -> None:
    sessions = [Session(world) for _ in range(8)]
    results = await asyncio.gather(*(s.run(f"sleep 0.2; echo {n}", timeout=60) for n, s in enumerate(sessions)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(8)]
    for s in sessions:
        await s.close()
    await world.finish()
    for s in sessions:
        world.forget(s)
