"""The report of `grade.sh`, as it comes out of a Pod's log.

Guarantees: only lines signed with the nonce of the log's first line count; the log between them has exactly the length
the signed line states, else the report is not accepted.
"""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PREFIX = b"swerl-grading "
HEAD_BYTES = 8 << 20  # of a log's beginning that the wrapper keeps
TAIL_BYTES = 24 << 20  # of its end: test output up to this length is whole, whatever was printed before it
_HEADER = re.compile(rb"^swerl-grading ([0-9a-f-]{36})\n")
_END = re.compile(
    rb" end stage=(?P<stage>\w+) exit=(?P<exit>\d+) began=(?P<began>[\d.]+) ended=(?P<ended>[\d.]+)"
    rb" total=(?P<total>\d+)\n"
)


class Malformed(Exception):
    """The Pod's log is not what the wrapper writes."""


@dataclass(frozen=True)
class TestFile:
    """A file of the task's tests before anything of the patch is there."""

    __test__ = False

    before: bytes | None  # as the image has it, None where it does not
    after: bytes  # with the task's test patch


@dataclass(frozen=True)
class Report:
    """What the wrapper says happened."""

    stage: str  # no_work_tree | wrong_base | apply_failed | restore_failed | eval
    exit_code: int  # of the stage's command
    seconds: float  # the eval script's own time
    total_bytes: int  # length of the log before it was cut
    log: bytes
    notes: tuple[str, ...]  # protected files put back, shell-quoted; `unshielded`
    keys: tuple[str, ...] = ()  # of the sessions that could be witnessed
    test_record: bytes = b""  # what the witness wrote
    scrubbed: str = ""  # what became of objects later than HEAD, as `scrub_history.sh` reports it
    applied: str = ""  # the program that applied the patch
    dirty: tuple[str, ...] = ()  # up to 20 files in which the image's tree differs from its commit, shell-quoted
    isolation: str = ""  # proved | unproved | unknown | reached <targets>
    test_starts: int = 0  # how often something announced that the tests begin: once, by the eval script
    ended: tuple[
        str, ...
    ] = ()  # names of processes that the script had left when its tests began, and that were killed
    left: tuple[str, ...] = ()  # what installation steps left that Python or pytest load, as `<file>: <line>`
    oom_kills: int = 0  # processes of the Pod that the kernel killed at its memory limit
    files: Mapping[str, TestFile] = field(default_factory=dict)  # of the task's tests, by path

    @property
    def left_out(self) -> int:
        """Bytes of the log's middle that were not kept."""
        return max(0, self.total_bytes - HEAD_BYTES - TAIL_BYTES)


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
        end_line = b"\n" + sign + b" end "
        at = self._seen.find(end_line, self._searched)
        if at < 0:
            self._searched = max(0, len(self._seen) - len(end_line))
            return None
        self._searched = at
        end = _END.match(self._seen, at + 1 + len(sign))
        return _assembled(bytes(self._seen[: at + 1]), sign, end) if end else None


def _assembled(seen: bytes, sign: bytes, end: re.Match[bytes]) -> Report:
    signed = [part.partition(b"\n") for part in seen.split(sign + b" ")[1:]]
    total = int(end["total"])
    head, tail = (_inflated(_body(signed, name)) for name in (b"head", b"tail"))
    return Report(
        stage=end["stage"].decode(),
        exit_code=int(end["exit"]),
        seconds=max(0.0, float(end["ended"]) - float(end["began"])),
        total_bytes=total,
        log=_joined(head, tail, total),
        notes=_signed_fields(signed, b"note "),
        keys=_signed_fields(signed, b"key "),
        test_record=_decoded(_body(signed, b"test_record")),
        scrubbed="".join(_signed_fields(signed, b"scrubbed ")),
        applied="".join(_signed_fields(signed, b"applied ")),
        dirty=_signed_fields(signed, b"dirty "),
        isolation="".join(_signed_fields(signed, b"isolation ")),
        test_starts=_count(signed, b"starts "),
        ended=tuple(dict.fromkeys(_signed_fields(signed, b"ended "))),
        left=tuple(sorted(_signed_fields(signed, b"left "))),
        oom_kills=_count(signed, b"oom "),
        files=_files(signed),
    )


def _joined(head: bytes, tail: bytes, total: int) -> bytes:
    """The log of `total` bytes from its two kept parts, without its middle when it was longer than both."""
    missing = total - len(head)
    if len(head) != min(total, HEAD_BYTES) or len(tail) != (min(total, TAIL_BYTES) if missing else 0):
        raise Malformed(f"the log does not have the {total} bytes that the report states")
    if missing > len(tail):
        return head + b"\n" + tail
    return head + tail[len(tail) - missing :]


def _signed_fields(signed: Sequence[tuple[bytes, bytes, bytes]], kind: bytes) -> tuple[str, ...]:
    return tuple(line.removeprefix(kind).decode("utf-8", "replace") for line, _, _ in signed if line.startswith(kind))


def _count(signed: Sequence[tuple[bytes, bytes, bytes]], kind: bytes) -> int:
    digits = "".join(_signed_fields(signed, kind))
    return int(digits) if digits.isdecimal() else 0


def _body(signed: Sequence[tuple[bytes, bytes, bytes]], name: bytes) -> bytes:
    return next((body for line, _, body in signed if line == name), b"")


def _files(signed: Sequence[tuple[bytes, bytes, bytes]]) -> dict[str, TestFile]:
    content: dict[str, dict[str, bytes]] = {}
    for line, _, body in signed:
        for kind in ("before", "after"):
            if line.startswith(f"file {kind} ".encode()):
                path = line.decode("utf-8", "replace").removeprefix(f"file {kind} ")
                content.setdefault(path, {})[kind] = _inflated(body)
    return {
        path: TestFile(each.get("before"), each["after"] if "after" in each else each["before"])
        for path, each in content.items()
    }


def _decoded(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(text)
    except binascii.Error as error:
        raise Malformed(f"a part of the report is incomplete: {error}") from error


def _inflated(text: bytes) -> bytes:
    try:
        return zlib.decompress(_decoded(text), wbits=31) if text else b""
    except zlib.error as error:
        raise Malformed(f"a part of the report is incomplete: {error}") from error
