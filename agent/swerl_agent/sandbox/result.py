"""What a command in a sandbox did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandResult:
    """End of a command. An output longer than asked for is its two ends, joined; the counts are those in the Pod."""

    id: str
    exit_code: int  # of the shell; 128 + n when signal n ended it; 126 when the working directory is missing
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    timed_out: bool
    duration: float  # seconds, as the client saw it
    ran: float | None = None  # seconds from the shell that became it to its end, in steps of 0.01; None when unknown
    retries: int = 0  # streams that were lost on the way; the command ran once all the same
    handshake_errors: int = 0  # tries to open a stream that failed meanwhile

    @property
    def output(self) -> str:
        """Standard output, then standard error, as text: a gap is marked, what is no UTF-8 is replaced."""
        return _text(self.stdout, self.stdout_bytes) + _text(self.stderr, self.stderr_bytes)

    @property
    def truncated(self) -> bool:
        return len(self.stdout) < self.stdout_bytes or len(self.stderr) < self.stderr_bytes

    @property
    def hidden(self) -> int:
        """Bytes of output that stayed in the Pod."""
        return max(0, self.stdout_bytes + self.stderr_bytes - len(self.stdout) - len(self.stderr))


def _text(data: bytes, total: int) -> str:
    if len(data) == total:
        return data.decode("utf-8", "replace")
    middle = len(data) - len(data) // 2  # of a cut output the first half, rounded up, is its start (Session.run)
    head, tail = data[:middle].decode("utf-8", "replace"), data[middle:].decode("utf-8", "replace")
    return f"{head}\n[{total - len(data)} bytes left out]\n{tail}"
