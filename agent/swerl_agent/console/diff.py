"""A unified diff as files with numbered, classified lines. Any text gives a result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .blocks import Budget

LineKind = Literal["add", "del", "context", "hunk", "note"]
LONGEST_LINE = 2_000  # characters
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")
_NAME = re.compile(r"diff --git a/(.*) b/(.*)")


@dataclass(frozen=True)
class DiffLine:
    """One line; `old` and `new` are its numbers on either side."""

    kind: LineKind
    text: str
    old: int | None = None
    new: int | None = None


@dataclass
class DiffFile:
    """The changes of one file."""

    name: str
    lines: list[DiffLine] = field(default_factory=list)
    added: int = 0
    removed: int = 0


@dataclass(frozen=True)
class Diff:
    """A diff as a page shows it."""

    files: Sequence[DiffFile]
    missing: int  # lines left out for the page's size

    @property
    def added(self) -> int:
        """Added lines of all files."""
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        """Removed lines of all files."""
        return sum(file.removed for file in self.files)


def read_diff(patch: str, budget: Budget, most: int) -> Diff:
    """The files of `patch`, whose lines take at most `most` bytes of the page."""
    files, missing = list[DiffFile](), 0
    room = Budget(min(most, budget.left))
    allowed = room.left
    for file, line in _lines(patch):
        if not files or files[-1].name != file:
            files.append(DiffFile(file))
        files[-1].added += line.kind == "add"
        files[-1].removed += line.kind == "del"
        if room.left < 200:
            missing += 1
            continue
        block = room.cut(line.text, LONGEST_LINE)
        room.left = max(0, room.left - 110)  # the line's own markup
        shown = block.head + ("…" + block.tail if block.missing else "")
        files[-1].lines.append(DiffLine(line.kind, shown, line.old, line.new))
    budget.left -= allowed - room.left
    return Diff(files, missing)


def _lines(patch: str) -> Iterator[tuple[str, DiffLine]]:
    """Every line with its file's name."""
    name, old, new, inside = "", 0, 0, False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            found = _NAME.fullmatch(line.rstrip("\r"))
            name, inside = found[2] if found else line[11:], False
        elif found := _HUNK.match(line):
            old, new, inside = int(found[1]), int(found[2]), True
            yield name, DiffLine("hunk", line)
        elif inside and line.startswith("+"):
            yield name, DiffLine("add", line[1:], None, new)
            new += 1
        elif inside and line.startswith("-"):
            yield name, DiffLine("del", line[1:], old, None)
            old += 1
        elif inside and line.startswith(" "):
            yield name, DiffLine("context", line[1:], old, new)
            old, new = old + 1, new + 1
        elif line:
            yield name, DiffLine("note", line)
