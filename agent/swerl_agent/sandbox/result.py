"""The result of a command in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandResult:
    """A truncated output consists of its first and last bytes, joined; the byte counts are those in the Pod."""

    id: str
    exit_code: int  # of the shell; 128 + n for signal n; 126 when the working directory is missing
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    timed_out: bool
    duration: float  # seconds, measured by the client
    run_seconds: float | None = None  # in the Pod, in steps of 0.01; None when unknown
    retries: int = 0  # streams lost meanwhile; the command still ran once
    handshake_errors: int = 0  # failed requests for a stream meanwhile

    @property
    def output(self) -> str:
        """Standard output, then standard error, as text. A gap is marked; invalid UTF-8 is replaced."""
        return _text(self.stdout, self.stdout_bytes) + _text(self.stderr, self.stderr_bytes)

    @property
    def truncated(self) -> bool:
        return len(self.stdout) < self.stdout_bytes or len(self.stderr) < self.stderr_bytes

    @property
    def omitted_bytes(self) -> int:
        """Bytes of output that were not returned."""
        return max(0, self.stdout_bytes + self.stderr_bytes - len(self.stdout) - len(self.stderr))


def _text(data: bytes, total: int) -> str:
    if len(data) == total:
        return data.decode("utf-8", "replace")
    middle = len(data) - len(data) // 2  # OutputLimit.halves
    head, tail = data[:middle].decode("utf-8", "replace"), data[middle:].decode("utf-8", "replace")
    return f"{head}\n[{total - len(data)} bytes left out]\n{tail}"
