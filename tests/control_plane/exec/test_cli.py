"""`swerl sandbox`, as a person types it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import Session
from swerl_kube import KubeClient

from tests.control_plane.exec.conftest import IMAGE, connect
from tests.control_plane.operator_process import Operator

if TYPE_CHECKING:
    from .conftest import MakePod


@pytest.fixture
def cli(namespace: str, kubeconfig: str, operator: Operator) -> Callable[..., list[str]]:
    """The command line of `swerl sandbox WORDS` in the test's namespace."""
    options = ["--cpu", "100m", "--memory", "64Mi", "--namespace", namespace, "--kubeconfig", kubeconfig]
    return lambda *words: [sys.executable, "-m", "swerl_agent.cli", "sandbox", *words, *options]


def test_run_gives_outputs_and_exit_code(cli: Callable[..., list[str]]) -> None:
    words = cli("run", IMAGE, "pwd; echo err >&2; exit 3", "--workdir", "/tmp")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("/tmp\n", "err\n", 3)


def test_run_is_stopped_for_its_time(cli: Callable[..., list[str]]) -> None:
    words = cli("run", IMAGE, "echo begun; sleep 60", "--timeout", "1")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert "stopped after 1 s" in done.stderr


def run_on_terminal(words: list[str], keys: bytes) -> tuple[int, str]:
    """Exit code of a shell on a terminal of 40 lines and 100 columns, and all it showed."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    shell = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True)
    seen = bytearray()
    reader = threading.Thread(target=_read, args=(ours, seen), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while not seen.endswith((b"# ", b"$ ")):
        assert shell.poll() is None and time.monotonic() < deadline, seen
        time.sleep(0.1)
    os.write(ours, keys)
    code = shell.wait(timeout=120)
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    reader.join(10)
    return code, seen.decode()


def test_shell_is_a_terminal(cli: Callable[..., list[str]]) -> None:
    code, said = run_on_terminal(cli("shell", "--image", IMAGE), b"tty; stty size; echo $((6 * 7)); exit 5\n")
    assert code == 5 and "/dev/pts/" in said and "40 100" in said and "42\r\n" in said


async def test_shell_opens_in_a_claimed_sandbox(
    cli: Callable[..., list[str]], client: KubeClient, make_pod: MakePod
) -> None:
    pod = await make_pod()
    async with Session(connect(client, pod)) as session:
        await session.run("echo made by a rollout >/tmp/note", timeout=60)
        keys = b"cat /tmp/note; touch /tmp/seen; exit 6\n"
        code, said = await asyncio.to_thread(run_on_terminal, cli("shell", pod["metadata"]["name"]), keys)
        assert code == 6 and "made by a rollout\r\n" in said
        assert (await session.run("ls /tmp/seen", timeout=60)).exit_code == 0, "the rollout's session goes on"


async def test_shell_reads_a_pipe_to_its_end(cli: Callable[..., list[str]], make_pod: MakePod) -> None:
    words = cli("shell", (await make_pod())["metadata"]["name"])
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complaint = await asyncio.wait_for(process.communicate(b"echo $((6 * 7))\n"), 120)
    assert process.returncode == 0 and b"42\r\n" in said, (said, complaint)


def _read(terminal: int, seen: bytearray) -> None:
    while True:
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            return


def test_pod_that_is_not_there_is_named_with_the_way_to_those_that_are(
    cli: Callable[..., list[str]],
) -> None:
    words = cli("shell", "some-group")
    done = subprocess.run(words, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "no Pod some-group" in done.stderr
    assert "kubectl get pods -l swerl.dev/role=sandbox" in done.stderr and "swesb-NAME-0" in done.stderr


def test_shell_without_a_terminal_is_a_usage_error(cli: Callable[..., list[str]]) -> None:
    words = cli("shell", "--image", IMAGE)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "standard input is a file" in done.stderr and "swerl sandbox run" in done.stderr
