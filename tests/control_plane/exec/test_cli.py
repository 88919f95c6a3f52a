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
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import Session
from swerl_kube import KubeClient

from tests.conftest import kubectl
from tests.control_plane.exec.conftest import IMAGE, connect
from tests.control_plane.operator_process import Operator

if TYPE_CHECKING:
    from .conftest import MakePod


@pytest.fixture
def cli(namespace: str, kubeconfig: str, operator: Operator) -> Callable[..., list[str]]:
    """The command line of `swerl sandbox WORDS` in the test's namespace."""
    options = ["--cpu", "100m", "--memory", "64Mi", "--namespace", namespace, "--kubeconfig", kubeconfig]
    return lambda *arguments: [sys.executable, "-m", "swerl_agent.cli", "sandbox", *arguments, *options]


def test_run_gives_outputs_and_exit_code(cli: Callable[..., list[str]]) -> None:
    command = cli("run", IMAGE, "pwd; echo err >&2; exit 3", "--workdir", "/tmp")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("/tmp\n", "err\n", 3)


def test_run_is_stopped_for_its_time(cli: Callable[..., list[str]]) -> None:
    command = cli("run", IMAGE, "echo begun; sleep 60", "--timeout", "1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert "stopped after 1 s" in done.stderr


def test_output_is_printed_while_the_command_runs(cli: Callable[..., list[str]]) -> None:
    command = cli("run", IMAGE, "echo begun; cat; sleep 4; echo over")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "begun\n"
        first = time.monotonic()
        assert process.stdout.readline() == "over\n"
        assert time.monotonic() - first > 3 and process.wait(120) == 0


def test_command_that_ends_its_own_sandbox_is_a_lost_sandbox(cli: Callable[..., list[str]]) -> None:
    command = cli("run", IMAGE, "echo begun; kill -9 1; kill 1; sleep 60")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("begun\n", 3)
    assert "ended" in done.stderr


def test_long_wait_shows_the_words_of_the_condition_after_10_seconds(
    cli: Callable[..., list[str]], namespace: str, kubeconfig: str
) -> None:
    command = [*cli("run", IMAGE, "true"), "--cpu", "1000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        line = program.stderr.readline()
        printed = datetime.now(UTC)
        group, column = line.split()[1], "jsonpath={.metadata.creationTimestamp}"
        created = kubectl(kubeconfig, "get", "swesandbox", group, "-n", namespace, "-o", column)
        program.terminate()
        rest = program.stderr.read()
    assert "waits: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu" in line
    waited = (printed - datetime.fromisoformat(created)).total_seconds()  # that time has no fraction
    assert 9.5 < waited < 14, line
    assert program.returncode == 143 and "ended by SIGTERM; the command was stopped and its sandbox is deleted" in rest


def run_on_terminal(command: list[str], keys: bytes) -> tuple[int, str]:
    """Exit code of a shell on a terminal of 40 lines and 100 columns, and all it showed."""
    terminal, child_terminal = os.openpty()
    fcntl.ioctl(child_terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    before = termios.tcgetattr(child_terminal)
    shell = subprocess.Popen(
        command, stdin=child_terminal, stdout=child_terminal, stderr=subprocess.PIPE, start_new_session=True
    )
    output = bytearray()
    reader = threading.Thread(target=_read, args=(terminal, output), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while not output.endswith((b"# ", b"$ ")):
        assert shell.poll() is None and time.monotonic() < deadline, output
        time.sleep(0.1)
    os.write(terminal, keys)
    code = shell.wait(timeout=120)
    assert termios.tcgetattr(child_terminal) == before
    os.close(child_terminal)
    reader.join(10)
    return code, output.decode()


def test_shell_is_a_terminal(cli: Callable[..., list[str]]) -> None:
    code, output = run_on_terminal(cli("shell", "--image", IMAGE), b"tty; stty size; echo $((6 * 7)); exit 5\n")
    assert code == 5 and "/dev/pts/" in output and "40 100" in output and "42\r\n" in output


async def test_shell_opens_in_a_claimed_sandbox(
    cli: Callable[..., list[str]], client: KubeClient, make_pod: MakePod
) -> None:
    pod = await make_pod()
    async with Session(connect(client, pod)) as session:
        await session.run("echo made by a rollout >/tmp/note", timeout=60)
        keys = b"cat /tmp/note; touch /tmp/seen; exit 6\n"
        code, output = await asyncio.to_thread(run_on_terminal, cli("shell", pod["metadata"]["name"]), keys)
        assert code == 6 and "made by a rollout\r\n" in output
        assert (await session.run("ls /tmp/seen", timeout=60)).exit_code == 0, "the rollout's session continues"


async def test_shell_reads_a_pipe_to_its_end(cli: Callable[..., list[str]], make_pod: MakePod) -> None:
    command = cli("shell", (await make_pod())["metadata"]["name"])
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(b"echo $((6 * 7))\n"), 120)
    assert process.returncode == 0 and b"42\r\n" in stdout, (stdout, stderr)


def _read(terminal: int, output: bytearray) -> None:
    while True:
        try:
            output += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            return


def test_pod_that_is_not_there_is_named_with_the_way_to_those_that_are(
    cli: Callable[..., list[str]],
) -> None:
    command = cli("shell", "some-group")
    done = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "no Pod some-group" in done.stderr
    assert "swerl sandbox ls" in done.stderr and "swesb-NAME-0" in done.stderr


def test_shell_without_a_terminal_is_a_usage_error(cli: Callable[..., list[str]]) -> None:
    command = cli("shell", "--image", IMAGE)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "standard input is a file" in done.stderr and "swerl sandbox run" in done.stderr
