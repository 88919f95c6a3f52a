"""Ctrl-C while a first command still builds: it ends at once with a message and leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cluster.layout import image_listing
from tests.conftest import without_make
from tests.control_plane.cluster.probe_namespace import ROOT, eventually


def processes_of(home: Path) -> dict[int, str]:
    """Command lines of all processes that were started with this SWERL_HOME, or name it."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((process / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue  # it has ended
        if f"SWERL_HOME={home}".encode() in environment.split(b"\0") or str(home).encode() in command:
            found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def assert_builds(making: subprocess.Popen[str], home: Path, busy: str) -> None:
    """Waits until a process of `home` has `busy` in its command line; fails with its output where it ends before."""

    def builds_or_ended() -> bool:
        return making.poll() is not None or any(busy in line for line in processes_of(home).values())

    eventually(builds_or_ended, f"`{busy}` runs", 240)
    assert making.poll() is None, making.communicate()[0]


@pytest.mark.parametrize(
    ("command", "busy", "message"),
    [
        ("cluster", "go build", "interrupted; the same command goes on"),
        ("venv", "pip install", "interrupted; run the same command to resume"),
        ("demo", "pip install", "stopped; run the same command to resume"),
    ],
)
def test_build_that_is_interrupted(tmp_path: Path, command: str, busy: str, message: str) -> None:
    home = tmp_path / "home"
    image_listing(home).parent.mkdir(parents=True)
    image_listing(home).write_text("{}")  # no room for images is needed then
    environment = without_make() | {"SWERL_HOME": str(home)}
    making = subprocess.Popen(
        ["make", command], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert_builds(making, home, busy)
        os.killpg(making.pid, signal.SIGINT)  # as Ctrl-C in a terminal: to make and to all it started
        output, _ = making.communicate(timeout=30)
    finally:
        making.kill()
    assert making.returncode != 0 and message in output and "Traceback" not in output, output
    eventually(lambda: not processes_of(home), f"nothing of it runs: {processes_of(home)}", 10)
