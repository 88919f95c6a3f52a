"""What a command is given: standard input, and arguments of the wrong kind."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from swerl_agent.sandbox import FileError, Session, SessionSettings, TransferFailed

if TYPE_CHECKING:
    from .conftest import ImageFolder

ALL_BYTES = bytes(range(256))


@pytest.mark.parametrize("login", [True, False])
async def test_stdin_arrives_byte_for_byte(session: Session, login: bool) -> None:
    result = await session.run("cat; echo $? >&2", timeout=20, stdin=ALL_BYTES * 100, login=login)
    assert (result.stdout, result.stderr) == (ALL_BYTES * 100, b"0\n")
    assert (await session.run("cat; echo end", timeout=20, stdin=b"")).stdout == b"end\n"


async def test_large_stdin_arrives(session: Session) -> None:
    data = ALL_BYTES * (10 << 12)
    result = await session.run("sha256sum", timeout=60, stdin=data)
    assert result.stdout.decode().split()[0] == hashlib.sha256(data).hexdigest()


async def test_unread_stdin_is_no_error(session: Session) -> None:
    assert (await session.run("head -c 3", timeout=20, stdin=ALL_BYTES * 9000)).stdout == b"\0\1\2"
    assert (await session.run("exit 4", timeout=20, stdin=ALL_BYTES * 9000)).exit_code == 4


async def test_stdin_file_is_removed(session: Session, image_folder: ImageFolder) -> None:
    await session.run("true", timeout=20, stdin=bytes(100_000))
    [folder] = image_folder.state(session)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1000


async def test_files_of_long_commands_are_removed(session: Session, image_folder: ImageFolder) -> None:
    for n in range(70):
        text = f"echo {n}; # {'x' * 5000}"
        assert (await session.run(text, timeout=20, login=False)).stdout == f"{n}\n".encode()
    [folder] = image_folder.state(session)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 70 * 5000


@pytest.mark.parametrize("settings", [SessionSettings(chunk_bytes=1000)], ids=[""])
async def test_incomplete_stdin_is_sent_again(
    session: Session, image_folder: ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.run("true", timeout=20)
    channel = image_folder.channel
    send, shortened = channel.send, asyncio.Event()

    async def lossy(data: bytes) -> None:
        lost = data == b"b" * 1000 and not shortened.is_set()
        if lost:
            shortened.set()
            data = data[:500]
            channel.disconnect()
        else:
            await send(data)

    monkeypatch.setattr(channel, "send", lossy)
    result = await session.run("wc -c", timeout=20, stdin=b"a" * 1000 + b"b" * 1000)
    assert shortened.is_set() and int(result.stdout) == 2000


async def test_stdin_that_stays_incomplete_raises(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    await session.run("true", timeout=20)
    (image_folder.path / "wc").unlink()
    (image_folder.path / "wc").write_text("#!/bin/sh\necho 5\n")
    (image_folder.path / "wc").chmod(0o755)
    with pytest.raises(TransferFailed, match="could not be uploaded after 2 retries"):
        await session.run(f"touch {tmp_path}/ran", timeout=20, stdin=b"1234567")
    assert not (tmp_path / "ran").exists()


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"command": "echo \0"}, ValueError, "NUL"),
    ({"command": "echo \0" + "x" * 9000}, ValueError, "NUL"),
    ({"command": "\ud800"}, ValueError, "surrogates"),
    ({"command": b"true"}, TypeError, "is text, not bytes"),
    ({"cwd": "/a\0b"}, ValueError, "NUL"),
    ({"env": {"A": "\0"}}, ValueError, "NUL"),
    ({"env": {"A": 1}}, TypeError, "is text, not int"),
    ({"env": {"A=B": "1"}}, ValueError, "not a name of an environment variable"),
    ({"user": "no\0body"}, ValueError, "NUL"),
    ({"stdin": "text"}, TypeError, "stdin is bytes, not str"),
    ({"id": "a/b"}, ValueError, "not an id of a command: 'a/b'"),
    ({"id": ""}, ValueError, "not an id of a command"),
    ({"timeout": float("nan")}, ValueError, "finite timeout"),
    ({"max_output": -1}, ValueError, "-1 bytes"),
]


@pytest.mark.parametrize("image_folder", ["dash"], indirect=True)
@pytest.mark.parametrize(("options", "kind", "message"), WRONG)
async def test_invalid_arguments_raise_before_anything_is_sent(
    session: Session, image_folder: ImageFolder, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    await session.run("true", timeout=20)
    sent = len(image_folder.channel.sent)
    with pytest.raises(kind, match=message):
        arguments: dict[str, Any] = {"command": "true", "timeout": 20} | options
        await session.run(**arguments)
    assert len(image_folder.channel.sent) == sent
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n" and len(image_folder.channels) == 1


@pytest.mark.parametrize("image_folder", ["dash"], indirect=True)
async def test_full_disk_raises_for_stdin(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    await session.run("true", timeout=20)
    (image_folder.path / "head").unlink()
    (image_folder.path / "head").write_text("#!/bin/sh\ncat >/dev/null & exit 1\n")
    (image_folder.path / "head").chmod(0o755)
    with pytest.raises(FileError, match="no room for 7 bytes"):
        await session.run(f"touch {tmp_path}/ran", timeout=20, stdin=b"1234567")
    assert not (tmp_path / "ran").exists()
