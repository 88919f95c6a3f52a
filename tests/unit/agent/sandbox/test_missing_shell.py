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

pytestmark = [
    pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True),
    pytest.mark.parametrize("settings", [SessionSettings(reconnect_window=1.0)], ids=[""]),
]


@pytest.mark.parametrize("removed", ["sh", "head"])
async def test_container_whose_shell_was_removed_is_unresponsive(
    session: Session, image_folder: ImageFolder, tmp_path: Path, removed: str
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    (image_folder.path / removed).unlink()
    if removed == "sh":
        image_folder.runtime_error = (
            "error executing command in container: failed to exec in container: OCI runtime exec failed: exec failed: "
            'unable to start container process: exec: "sh": executable file not found in $PATH'
        )
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


async def test_shell_that_was_replaced_is_unresponsive(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    task = await started(session, tmp_path / "runs", "sleep 60")
    (image_folder.path / "sh").unlink()
    (image_folder.path / "sh").write_text("#!/bin/sh\necho no loop; exec sleep 30\n")
    (image_folder.path / "sh").chmod(0o755)
    image_folder.channel.disconnect()
    with pytest.raises(Unresponsive, match="did not start"):
        await asyncio.wait_for(task, 20)
