"""Another client continues a session: a command with an id runs once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import CommandResult, Session, SessionSettings
from swerl_agent.sandbox.stream import Channel

from .conftest import until

if TYPE_CHECKING:
    from .conftest import ImageFolder

pytestmark = pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True)


@pytest.fixture
async def second_session(session: Session, image_folder: ImageFolder) -> AsyncIterator[Session]:
    """Another client of the session."""
    async with Session(image_folder, token=session.token) as second_session:
        yield second_session


async def disconnect(
    session: Session, image_folder: ImageFolder, task: asyncio.Task[CommandResult] | None = None
) -> None:
    """The client is gone as a killed process is: its stream ends, and it says nothing more."""
    image_folder.channel.disconnect()
    session._stream = None
    if task is not None:
        session._connector = _ClosedConnector()
        task.cancel()
        await asyncio.wait([task])


class _ClosedConnector:
    async def open(self, command: Sequence[str]) -> Channel:
        raise AssertionError("a dead client opens nothing")


async def run_named(session: Session, file: Path, rest: str, **options: object) -> CommandResult:
    return await session.run(f"echo run >>{file}; {rest}", timeout=30, id="build", **options)  # type: ignore[arg-type]


async def until_begun(file: Path) -> None:
    await until(file.exists)


async def test_finished_command_is_not_repeated(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    first = await run_named(session, tmp_path / "runs", r"printf '\377\0x'; echo err >&2; exit 5")
    await disconnect(session, image_folder)
    repeated = await run_named(second_session, tmp_path / "runs", "echo other text")
    assert (repeated.id, repeated.exit_code, repeated.stdout, repeated.stderr) == ("build", 5, b"\xff\0x", b"err\n")
    assert (first.id, first.stdout) == (repeated.id, repeated.stdout)
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("limit", [1 << 20, 70_000])
async def test_long_output_is_returned_as_it_was_at_the_end(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path, limit: int
) -> None:
    text = f"seq 1 20000; (sleep 0.3; echo more; : >{tmp_path}/printed) &"
    first = await run_named(session, tmp_path / "runs", text, max_output=limit)
    await until((tmp_path / "printed").exists)
    await disconnect(session, image_folder)
    repeated = await run_named(second_session, tmp_path / "runs", text, max_output=limit)
    expected = b"".join(b"%d\n" % number for number in range(1, 20001))
    assert (
        first.stdout
        == repeated.stdout
        == (expected if limit > len(expected) else expected[: limit // 2] + expected[-limit // 2 :])
    )
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_running_command_is_awaited(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = asyncio.create_task(run_named(session, tmp_path / "runs", "sleep 1; echo done; exit 3"))
    await until_begun(tmp_path / "runs")
    await disconnect(session, image_folder, task)
    repeated = await run_named(second_session, tmp_path / "runs", "sleep 1; echo done; exit 3")
    assert (repeated.exit_code, repeated.stdout) == (3, b"done\n")
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_command_that_never_began_is_started(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    await session.run("true", timeout=20)
    await disconnect(session, image_folder)
    assert (await run_named(second_session, tmp_path / "runs", "echo done")).stdout == b"done\n"
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_results_with_an_id_stay(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    await run_named(session, tmp_path / "runs", "echo kept")
    for n in range(70):
        await session.run(f"echo {n}", timeout=20, login=False)
    await disconnect(session, image_folder)
    assert (await run_named(second_session, tmp_path / "runs", "echo kept")).stdout == b"kept\n"
    [folder], [notes] = image_folder.state(session), image_folder.memory_folders(session)
    assert len([*folder.iterdir(), *notes.iterdir()]) < 250


async def test_client_may_repeat_an_id(session: Session, tmp_path: Path) -> None:
    results = [await run_named(session, tmp_path / "runs", "seq 1 5000", max_output=size) for size in (100, 1 << 20)]
    assert [len(result.stdout) for result in results] == [100, 23893]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_repeated_result_keeps_its_timeout(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    text = f"echo run >>{tmp_path}/runs; echo begun; sleep 60"
    first = await session.run(text, timeout=3, id="slow")
    await disconnect(session, image_folder)
    repeated = await second_session.run(text, timeout=3, id="slow")
    assert first.timed_out and repeated.timed_out and repeated.stdout == b"begun\n"
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_commands_without_an_id_are_not_shared(session: Session, second_session: Session) -> None:
    pairs = [
        (await session.run(f"echo a{n}", timeout=20), await second_session.run(f"echo b{n}", timeout=20))
        for n in range(3)
    ]
    assert [(a.stdout, b.stdout) for a, b in pairs] == [(f"a{n}\n".encode(), f"b{n}\n".encode()) for n in range(3)]


async def test_concurrent_clients_share_one_run(session: Session, second_session: Session, tmp_path: Path) -> None:
    results = await asyncio.gather(
        *(run_named(s, tmp_path / "runs", "sleep 0.5; echo done") for s in (session, second_session))
    )
    assert [result.stdout for result in results] == [b"done\n", b"done\n"]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_long_commands_and_stdin_are_taken_over(
    session: Session, second_session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    rest = f"cat <<'EOF' | wc -c\n{'x' * 50_000}\nEOF\nwc -c; sleep 0.5"
    task = asyncio.create_task(run_named(session, tmp_path / "runs", rest, stdin=bytes(70_000)))
    await until_begun(tmp_path / "runs")
    await disconnect(session, image_folder, task)
    repeated = await run_named(second_session, tmp_path / "runs", rest, stdin=bytes(70_000))
    assert repeated.stdout.split() == [b"50001", b"70000"]
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_command_with_an_id_survives_its_caller(session: Session, tmp_path: Path) -> None:
    task = asyncio.create_task(run_named(session, tmp_path / "runs", "sleep 1; echo done"))
    await until_begun(tmp_path / "runs")
    task.cancel()
    await asyncio.wait([task])
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"
    assert (await run_named(session, tmp_path / "runs", "never")).stdout == b"done\n"
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("settings", [SessionSettings(watchdog_after=60.0, watchdog_slack=0.0)], ids=[""])
async def test_pod_kills_the_command_of_a_dead_client(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = asyncio.create_task(session.run(f"touch {tmp_path}/begun; sleep 1000", timeout=2))
    await until_begun(tmp_path / "begun")
    await disconnect(session, image_folder, task)
    [folder] = image_folder.memory_folders(session)
    [record] = folder.glob("c1-????????")
    await until(lambda: "rc" in record.read_text())
    assert b"\nwatchdog " not in image_folder.channels[0].sent


async def test_invalid_token_is_refused(image_folder: ImageFolder) -> None:
    for token in ("", "../x", "a b", "x" * 65):
        with pytest.raises(ValueError, match="not a token of a session"):
            Session(image_folder, token=token)
