"""Commands run exactly once when streams fail, loops are killed and folders vanish."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import ClaimEnded, HandshakeFailed, PodGone, Session, SessionSettings, StateLost, Unresponsive
from swerl_agent.sandbox.session import DEFAULT_OUTPUT
from swerl_kube import Data
from swerl_kube.exec import STDOUT

from .conftest import until

if TYPE_CHECKING:
    from .conftest import ImageFolder

pytestmark = pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True)


async def started(session: Session, file: Path, rest: str, timeout: float = 30) -> asyncio.Task[object]:
    """A running command that has written one line to `file`."""
    task: asyncio.Task[object] = asyncio.create_task(session.run(f"echo run >>{file}; {rest}", timeout=timeout))
    await until(lambda: file.exists() and file.read_text() == "run\n")
    return task


@pytest.mark.parametrize("end_input", [True, False], ids=["stdin closed", "half open"])
async def test_command_survives_a_lost_stream(
    session: Session, image_folder: ImageFolder, tmp_path: Path, end_input: bool
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 1; echo done; exit 5")
    image_folder.channel.disconnect(end_input=end_input)
    result = await task
    assert (result.exit_code, result.stdout) == (5, b"done\n")  # type: ignore[attr-defined]
    assert len(image_folder.channels) == 2
    assert result.retries == 1  # type: ignore[attr-defined]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_lost_result_is_sent_again(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", f"echo result; touch {tmp_path}/end; sleep 0.3")
    await until((tmp_path / "end").exists)
    image_folder.channel._lost = True  # nothing arrives any more, which is not detected yet
    await asyncio.sleep(1)
    image_folder.channel.disconnect()
    assert (await task).stdout == b"result\n"  # type: ignore[attr-defined]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_stream_lost_while_idle_is_reopened(session: Session, image_folder: ImageFolder) -> None:
    await session.run("true", timeout=20)
    image_folder.channel.disconnect()
    result = await session.run("echo on", timeout=20)
    assert (result.stdout, result.retries) == (b"on\n", 1)
    assert len(image_folder.channels) == 2 and len(image_folder.state(session)) == 1


async def test_failed_handshakes_are_counted(session: Session, image_folder: ImageFolder) -> None:
    image_folder.refuse = HandshakeFailed("error dialing backend")
    result = await session.run("echo on", timeout=20)
    assert (result.stdout, result.retries, result.handshake_errors) == (b"on\n", 0, 1)
    assert (await session.run("echo on", timeout=20)).handshake_errors == 0


async def test_repeatedly_lost_streams_lose_no_command(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    for n in range(12):
        task = asyncio.create_task(session.run(f"echo {n} >>{tmp_path}/runs; echo {n}", timeout=30, login=False))
        await asyncio.sleep(0.004 * n)
        if image_folder.channels:
            image_folder.channel.disconnect()
        assert (await task).stdout == f"{n}\n".encode()
    assert (tmp_path / "runs").read_text() == "".join(f"{n}\n" for n in range(12))


async def test_late_request_of_a_lost_stream_does_not_run_again(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    await session.run("true", timeout=20)
    old = image_folder.channel
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
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    await session.run("true", timeout=20)
    task = await started(session, tmp_path / "runs", "echo partial; sleep 60")
    await asyncio.sleep(0.3)
    for entry in Path("/proc").glob("[0-9]*"):
        environ = entry / "environ"
        try:
            if f"HOME={image_folder.home}".encode() in environ.read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue
    result = await task
    assert (result.exit_code, result.stdout) == (137, b"partial\n")  # type: ignore[attr-defined]
    assert (tmp_path / "runs").read_text() == "run\n"
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"


async def test_command_that_removes_the_state_folders_has_a_result(session: Session, image_folder: ImageFolder) -> None:
    await session.run("true", timeout=20)
    [folder], [notes] = image_folder.state(session), image_folder.memory_folders(session)
    result = await session.run(f"echo before; rm -rf {folder} {notes}; echo after; echo err >&2", timeout=20)
    assert (result.stdout, result.stderr) == (b"before\nafter\n", b"err\n")
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"
    assert len(image_folder.state(session)) == len(image_folder.memory_folders(session)) == 1


@pytest.mark.parametrize("suffix", ["", ".notes", "*"])
async def test_lost_record_raises_instead_of_running_twice(
    suffix: str, session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 20")
    image_folder.remove_state(session, suffix)
    image_folder.channel.disconnect()
    with pytest.raises(StateLost, match="may have run"):
        await task
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("settings", [SessionSettings(watchdog_after=0.1, watchdog_slack=0.0)], ids=[""])
async def test_pod_enforces_the_timeout_while_disconnected(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = asyncio.create_task(session.run(f"echo run >>{tmp_path}/runs; sleep 60", timeout=2))
    await until(lambda: image_folder.channels and b"watchdog c1" in image_folder.channel.sent)
    image_folder.unavailable = True
    image_folder.channel.disconnect()
    [folder] = image_folder.memory_folders(session)
    [record] = folder.glob("c1-????????")
    await until(lambda: "rc" in record.read_text())
    image_folder.unavailable = False
    result = await task
    assert result.timed_out and (tmp_path / "runs").read_text() == "run\n"


async def test_deleted_pod_raises_at_once(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    image_folder.refuse = PodGone("pod x is gone")
    image_folder.channel.disconnect()
    with pytest.raises(PodGone):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("settings", [SessionSettings(reconnect_window=1.0)], ids=[""])
async def test_unreachable_pod_raises_after_the_reconnect_window(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    image_folder.unavailable = True
    image_folder.channel.disconnect()
    with pytest.raises(HandshakeFailed, match="no stream to the sandbox for 1 s"):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("settings", [SessionSettings(kill_grace=3.0)], ids=[""])
async def test_stuck_loop_is_replaced(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    await session.run("true", timeout=20)
    os.killpg(image_folder.channel.pid, signal.SIGSTOP)
    result = await asyncio.wait_for(session.run(f"echo run >>{tmp_path}/runs; echo on", timeout=2), 60)
    assert result.stdout == b"on\n" and len(image_folder.channels) == 2
    os.killpg(image_folder.channels[0].pid, signal.SIGCONT)
    await asyncio.sleep(0.5)
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("settings", [SessionSettings(kill_grace=0.5, hello_after_kill=1.0)], ids=[""])
async def test_pod_that_ignores_the_kill_is_unresponsive(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60", timeout=1)
    os.killpg(image_folder.channel.pid, signal.SIGSTOP)
    (image_folder.path / "sh").unlink()
    (image_folder.path / "sh").write_text("#!/bin/sh\nexec sleep 30\n")
    (image_folder.path / "sh").chmod(0o755)
    with pytest.raises(Unresponsive, match="after it was killed"):
        await asyncio.wait_for(task, 25)
    assert len(image_folder.channels) == 2 and (tmp_path / "runs").read_text() == "run\n"
    os.killpg(image_folder.channels[0].pid, signal.SIGCONT)


async def test_cancelled_command_is_killed_by_the_next_stream(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", f"sleep 60; touch {tmp_path}/finished")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"
    [folder] = image_folder.memory_folders(session)
    [record] = folder.glob("c1-????????")
    await until(lambda: Path(f"{record}.timeout").exists() and "rc" in record.read_text())


async def test_cancelled_command_is_killed_at_once(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [folder] = image_folder.memory_folders(session)
    [record] = folder.glob("c1-????????")
    await until(lambda: Path(f"{record}.timeout").exists() and "rc" in record.read_text())  # without a next command


async def test_closed_session_says_so_at_once(session: Session, tmp_path: Path) -> None:
    running = await started(session, tmp_path / "runs", "sleep 60")
    await session.close()
    with pytest.raises(ClaimEnded, match="use it inside its `async with` block"):
        await asyncio.wait_for(running, 5)
    with pytest.raises(ClaimEnded):
        await asyncio.wait_for(session.read_file("/etc/hostname"), 5)


async def test_large_output_is_truncated(session: Session) -> None:
    result = await session.run("head -c 104857600 /dev/zero; echo end", timeout=120)
    assert result.stdout_bytes == 104857604 and result.stdout.endswith(b"end\n")
    assert len(result.stdout) == DEFAULT_OUTPUT


async def test_endless_output_stops_at_the_file_limit(image_folder: ImageFolder) -> None:
    async with Session(image_folder, file_limit=4 << 20) as session:
        result = await session.run("yes", timeout=60)
        assert result.stdout_bytes == 4 << 20 and result.exit_code == 128 + signal.SIGXFSZ and not result.timed_out
    await image_folder.finish()
    image_folder.remove_state(session)


async def test_protocol_error_reopens_the_stream(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 0.5; echo fine")
    image_folder.channel._queue.put_nowait(Data(STDOUT, b"forged nonsense\n"))
    assert (await task).stdout == b"fine\n"  # type: ignore[attr-defined]
    assert len(image_folder.channels) == 2


async def test_sessions_share_the_event_loop(image_folder: ImageFolder) -> None:
    sessions = [Session(image_folder) for _ in range(8)]
    results = await asyncio.gather(*(s.run(f"sleep 0.2; echo {n}", timeout=60) for n, s in enumerate(sessions)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(8)]
    for s in sessions:
        await s.close()
    await image_folder.finish()
    for s in sessions:
        image_folder.remove_state(s)
