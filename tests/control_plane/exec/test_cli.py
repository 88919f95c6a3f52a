"""`swerl sandbox`, as a person types it."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable

import pytest

from tests.control_plane.exec.conftest import IMAGE
from tests.control_plane.operator_process import Operator


@pytest.fixture
def typed(namespace: str, kubeconfig: str, operator: Operator) -> Callable[..., list[str]]:
    """The command line of `swerl sandbox WORDS` in the test's namespace."""
    options = ["--cpu", "100m", "--memory", "64Mi", "--namespace", namespace, "--kubeconfig", kubeconfig]
    return lambda *words: [sys.executable, "-m", "swerl_agent.cli", "sandbox", *words, *options]


def test_run_gives_outputs_and_exit_code(typed: Callable[..., list[str]]) -> None:
    words = typed("run", IMAGE, "pwd; echo err >&2; exit 3", "--workdir", "/tmp")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("/tmp\n", "err\n", 3)


def test_run_is_stopped_for_its_time(typed: Callable[..., list[str]]) -> None:
    words = typed("run", IMAGE, "echo begun; sleep 60", "--timeout", "1")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert "stopped after 1 s" in done.stderr


def test_shell_is_a_terminal(typed: Callable[..., list[str]]) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    words = typed("shell", "--image", IMAGE)
    shell = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True)
    seen = bytearray()
    reader = threading.Thread(target=_read, args=(ours, seen), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while not seen.endswith((b"# ", b"$ ")):
        assert shell.poll() is None and time.monotonic() < deadline, seen
        time.sleep(0.1)
    os.write(ours, b"tty; stty size; echo $((6 * 7)); exit 5\n")
    assert shell.wait(timeout=120) == 5, shell.stderr and shell.stderr.read()
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    reader.join(10)
    said = seen.decode()
    assert "/dev/pts/" in said and "40 100" in said and "42\r\n" in said


def _read(terminal: int, seen: bytearray) -> None:
    while True:
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            return


def test_a_pod_that_is_not_there_is_named(typed: Callable[..., list[str]]) -> None:
    words = typed("shell", "swesb-none-0")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "swesb-none-0" in done.stderr
