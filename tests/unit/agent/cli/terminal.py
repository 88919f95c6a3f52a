"""A `swerl` process on a pseudoterminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

PATIENCE = 60.0  # seconds for an output, or for the end


class Terminal:
    """What the process prints, and keys for it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self._process, self._master = process, master
        self.output = ""

    def wait_for(self, text: str) -> None:
        """Read until the output after the last wait has `text`; raises AssertionError where it does not come."""
        begun, deadline = len(self.output), time.monotonic() + PATIENCE
        while text not in self.output[begun:]:
            assert self._read(deadline), f"{text!r} did not come: {self.output!r}"

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, f"{line}\n".encode())

    def end(self) -> int:
        """The exit code, after all output was read."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self._process.wait(max(1.0, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        data = b""
        if ready:
            with suppress(OSError):  # EIO: the process has ended
                data = os.read(self._master, 65_536)
        self.output += data.decode(errors="replace")
        return bool(data)


@contextmanager
def on_terminal(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """`swerl` with these arguments, on a terminal of 120 columns; it does not outlive the block."""
    master, slave = os.openpty()
    size = {"TERM": "xterm", "COLUMNS": "120", "LINES": "40", **(environment or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "swerl_agent.cli", *arguments],
        stdin=slave, stdout=slave, stderr=slave, env=os.environ | size, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
