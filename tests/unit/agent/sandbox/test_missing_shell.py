"""Streams that are accepted and bring no loop: the container's own shell is the cause, or the runtime is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import HandshakeFailed, Session, SessionSettings, Unresponsive

from .test_faults import started

if TYPE_CHECKING:
    from .conftest import ImageFolder

SETTINGS = SessionSettings(reconnect_window=1.0, hello_timeout=4.0, probe_timeout=4.0)
pytestmark = [
    pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True),
    pytest.mark.parametrize("settings", [SETTINGS], ids=[""]),
]


@pytest.mark.parametrize("removed", ["sh", "head"])
async def test_container_whose_shell_was_removed_is_unresponsive(
    session: Session, image_folder: ImageFolder, tmp_path: Path, removed: str
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    (image_folder.path / removed).unlink()
    image_folder.channel.disconnect()
    with pytest.raises(Unresponsive, match="no stream to the sandbox for 1 s: the session loop did not") as caught:
        await asyncio.wait_for(task, 20)
    assert caught.value.by_commands


@pytest.mark.parametrize("message", ["context deadline exceeded", "failed to create exec: cannot reach containerd"])
async def test_runtime_that_starts_no_program_is_no_fault_of_commands(
    session: Session, image_folder: ImageFolder, tmp_path: Path, message: str
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    image_folder.runtime_error = message
    image_folder.channel.disconnect()
    with pytest.raises(HandshakeFailed, match="no stream to the sandbox for 1 s") as caught:
        await asyncio.wait_for(task, 20)
    assert not caught.value.by_commands


@pytest.mark.parametrize("answer", ["echo no loop; exec sleep 30", "echo no loop", "exec true"])
async def test_shell_that_was_replaced_is_unresponsive(
    session: Session, image_folder: ImageFolder, tmp_path: Path, answer: str
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    replace_shell(image_folder, answer)
    image_folder.channel.disconnect()
    with pytest.raises(Unresponsive, match="did not start"):
        await asyncio.wait_for(task, 20)


async def test_shell_that_hangs_is_unresponsive(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    replace_shell(image_folder, "exec sleep 30")
    image_folder.channel.disconnect()
    with pytest.raises(Unresponsive, match=r"no stream to the sandbox for 1 s: .* no answer") as caught:
        await asyncio.wait_for(task, 20)
    assert caught.value.by_commands


async def test_node_on_which_nothing_answers_is_no_fault_of_commands(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    image_folder.runtime_hangs = True
    image_folder.channel.disconnect()
    with pytest.raises(HandshakeFailed, match=r"no stream to the sandbox for 1 s: .* no answer") as caught:
        await asyncio.wait_for(task, 20)
    assert not caught.value.by_commands


@pytest.mark.parametrize("answer", ["exec sleep 30", "echo no loop"])
async def test_image_whose_shell_never_worked_is_no_fault_of_commands(
    session: Session, image_folder: ImageFolder, answer: str
) -> None:
    replace_shell(image_folder, answer)
    with pytest.raises(HandshakeFailed, match="no stream to the sandbox for 1 s") as caught:
        await asyncio.wait_for(session.open(), 20)
    assert not caught.value.by_commands


async def test_session_without_profile_knows_that_the_shell_worked(session: Session, image_folder: ImageFolder) -> None:
    await session.open()
    (image_folder.path / "sh").unlink()
    async with session.without_profile() as second:
        with pytest.raises(Unresponsive, match="did not start"):
            await asyncio.wait_for(second.open(), 20)


def replace_shell(image_folder: ImageFolder, script: str) -> None:
    """Put a program that runs `script` in the place of sh."""
    shell = image_folder.path / "sh"
    shell.unlink()
    shell.write_text(f"#!/bin/sh\n{script}\n")
    shell.chmod(0o755)
