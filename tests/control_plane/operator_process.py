"""An operator as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.ports import free_port

START_SECONDS = 240.0  # that a new process may take to serve, on processors that many tests share


class Operator:
    """`python -m swerl_operator` with `options`; when restarted, it takes over from a killed one at once.

    `program` replaces the module, for an operator whose settings have no option. As a context manager it starts, and
    ends with the signal that Kubernetes sends.
    """

    def __init__(
        self, kubeconfig: str, log: Path, program: Sequence[str] = ("-m", "swerl_operator"), **options: str
    ) -> None:
        self._health, self._metrics = free_port(), free_port()
        ports = {"health_port": str(self._health), "metrics_port": str(self._metrics)}
        named = {name.replace("_", "-"): value for name, value in (options | ports).items()}
        self._command = [
            sys.executable,
            *program,
            *(f"--{name}={value}" for name, value in named.items()),
        ]
        self._environment = os.environ | {"KUBECONFIG": kubeconfig}
        self._process: subprocess.Popen[bytes] | None = None
        self.log = log

    def __enter__(self) -> Operator:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGTERM)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal and wait for the end; no-op when it does not run."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def until_leading(self) -> None:
        """Wait until it serves; fails with the end of its log."""
        self._until("leading\n")

    def until_standing_by(self) -> None:
        """Wait until it stands by for another leader; fails with the end of its log."""
        self._until("standby\n")

    def _until(self, state: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.health("readyz") != state:
            assert self.alive and time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.2)

    def health(self, page: str) -> str:
        """`readyz` or `livez`; '' when it does not answer."""
        return _page(self._health, page)

    def metrics(self) -> str:
        """The metrics page; '' when it does not answer."""
        return _page(self._metrics, "metrics")

    def metric(self, name: str) -> float:
        """Value of a metric with its labels as written, e.g. `x_total{verb="a"}`; 0 when absent."""
        lines = [line for line in self.metrics().splitlines() if line.startswith(name + " ")]
        return float(lines[0].rpartition(" ")[2]) if lines else 0.0


def _page(port: int, page: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
