"""The report of `grade.sh`, as it comes out of a Pod's log.

Guarantees: only lines signed with the nonce of the log's first line count; the log between them has exactly the length
the signed line states, else the report is not accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PREFIX = b"swerl-grading "
_HEADER = re.compile(rb"^swerl-grading ([0-9a-f-]{36})\n")
_END = re.compile(
    rb" end stage=(?P<stage>\w+) exit=(?P<exit>\d+) began=(?P<began>[\d.]+) ended=(?P<ended>[\d.]+)"
    rb" total=(?P<total>\d+) kept=(?P<kept>\d+)\n"
)


class Malformed(Exception):
    """The Pod's log is not what the wrapper writes."""


@dataclass(frozen=True)
class Report:
    """What the wrapper says happened."""

    stage: str  # no_work_tree | wrong_base | apply_failed | eval
    exit_code: int  # of the stage's command
    seconds: float  # the eval script's own time
    total_bytes: int  # length of the log before it was cut
    log: bytes
    notes: tuple[str, ...]  # protected files put back, shell-quoted


class Framer:
    """Collects a Pod's log; `report` is there as soon as the signed end is."""

    def __init__(self) -> None:
        self._seen = bytearray()
        self._searched = 0
        self.report: Report | None = None

    @property
    def begun(self) -> bool:
        """Whether the wrapper has said anything."""
        return bool(_HEADER.match(self._seen))

    def feed(self, chunk: bytes) -> Report | None:
        """Add bytes; the report once it is complete. Raises Malformed when it contradicts itself."""
        self._seen += chunk
        header = _HEADER.match(self._seen)
        if header and self.report is None:
            self.report = self._find_end(PREFIX + header[1])
        return self.report

    def _find_end(self, sign: bytes) -> Report | None:
        needle = b"\n" + sign + b" end "
        at = self._seen.find(needle, self._searched)
        if at < 0:
            self._searched = max(0, len(self._seen) - len(needle))
            return None
        self._searched = at
        end = _END.match(self._seen, at + 1 + len(sign))
        return self._assemble(sign, at, end) if end else None

    def _assemble(self, sign: bytes, at: int, end: re.Match[bytes]) -> Report:
        kept = int(end["kept"])
        opening = b"\n" + sign + b" log\n"
        start = at - kept
        if start < len(opening) or self._seen[start - len(opening) : start] != opening:
            raise Malformed(f"the log before the report's end does not have the {kept} bytes it states")
        notes = re.findall(re.escape(sign) + rb" note (.*)\n", bytes(self._seen[: start - len(opening) + 1]))
        return Report(
            stage=end["stage"].decode(),
            exit_code=int(end["exit"]),
            seconds=max(0.0, float(end["ended"]) - float(end["began"])),
            total_bytes=int(end["total"]),
            log=bytes(self._seen[start:at]),
            notes=tuple(note.decode("utf-8", "replace") for note in notes),
        )
