"""Files of a sandbox: what a write keeps, and the errors that reads and writes share."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from swerl_agent.sandbox import (
    AccessDenied,
    FileError,
    FileMissing,
    FileTooLarge,
    NotAFile,
    PathIsDirectory,
    Session,
    files,
)
from swerl_agent.sandbox.result import CommandResult

from .conftest import ImageFolder


async def test_write_keeps_mode_and_owner_of_a_file(session: Session, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("old\n")
    script.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(script, 1234, 1235)
    before = script.stat()
    await session.write_file(str(script), b"new\n")
    after = script.stat()
    assert script.read_text() == "new\n"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    await session.write_file(str(script), b"newer\n", mode=0o600)
    assert script.stat().st_mode & 0o777 == 0o600 and script.stat().st_uid == before.st_uid


async def test_write_goes_through_a_symbolic_link(session: Session, tmp_path: Path) -> None:
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    link.symlink_to("folder/real")
    await session.write_file(str(real), b"old")
    await session.write_file(str(link), b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"


async def test_new_file_is_not_writable_for_others(session: Session, tmp_path: Path) -> None:
    await session.write_file(str(tmp_path / "new"), b"x")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


async def test_reads_and_writes_fail_alike(session: Session, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, kind in {tmp_path: PathIsDirectory, pipe: NotAFile}.items():
        with pytest.raises(kind, match=str(path)):
            await asyncio.wait_for(session.read_file(str(path)), 10)
        with pytest.raises(kind, match=str(path)):
            await asyncio.wait_for(session.write_file(str(path), b"x"), 10)
    with pytest.raises(FileMissing, match="none: it does not exist"):
        await session.read_file(str(tmp_path / "none"))


async def test_limits_are_the_same_both_ways(image_folder: ImageFolder, tmp_path: Path) -> None:
    async with Session(image_folder, file_limit=1 << 20) as session:
        whole = bytes(1 << 20)
        await session.write_file(str(tmp_path / "whole"), whole)
        assert await session.read_file(str(tmp_path / "whole")) == whole
        (tmp_path / "more").write_bytes(whole + b"x")
        with pytest.raises(FileTooLarge, match="1048577 bytes"):
            await session.read_file(str(tmp_path / "more"))
        with pytest.raises(FileTooLarge, match="1048577 bytes"):
            await session.write_file(str(tmp_path / "again"), whole + b"x")


@pytest.mark.parametrize("said", ["cat: /x: Permission denied", "mv: cannot create '/x': Read-only file system"])
def test_refusal_of_the_file_system_is_typed(said: str) -> None:
    result = CommandResult("c", 1, b"", said.encode(), 0, len(said), timed_out=False, duration=0.0)
    error = files._error("cannot read /x", result)
    assert isinstance(error, AccessDenied) and isinstance(error, FileError) and said in str(error)
