"""Reads git diffs: the paths they change, the lines they add.

Guarantees: a line within a hunk is content, however much it looks like a header; paths are those of the repository,
without git's quotes and escapes. What git or patch(1) may take for a file's name, in any diff, is among `named_paths`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from posixpath import normpath

_SIDES = re.compile(r'diff --git (?P<quote>"?)a/(?P<path>.+)(?P=quote) "?b/(?P=path)"?')
_PATHS = ("+++ ", "--- ", "rename from ", "rename to ", "copy to ")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
# Lines from which git or patch(1), which reads indented diffs and mixed headers too, takes a file's name.
_NAMING = re.compile(
    r"^[ \tX]*(?:(?P<both>diff --git )|(?:rename|copy) (?:from|to) |Index:|--- |\+\+\+ |\*\*\* )(?P<names>.*)$",
    re.MULTILINE,
)
_INDENTED = re.compile(r"[ \tX]+(?:diff --git |@@ -)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SPACES = re.compile(r"\s+")
MAX_SPACES = 8  # of a header at which a name may end
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True)
class ChangedFile:
    """One file of a git diff."""

    path: str  # after the patch
    before: str  # its path before it, where it was not added
    added: bool
    deleted: bool


def changed_files(patch: str) -> list[ChangedFile]:
    """The files of a git diff, in its order."""
    return [
        ChangedFile(paths[-1], paths[0], "\nnew file mode " in header, "\ndeleted file mode " in header)
        for part in file_diffs(patch)
        if (paths := changed_paths(header := part.partition("\n@@ ")[0])) and header.startswith("diff --git ")
    ]


def added_lines(patch: str) -> Iterator[tuple[str, str]]:
    """(path, text) of every line that `patch` adds."""
    path = ""
    for content, line in _lines(patch):
        if content and line.startswith("+"):
            yield path, line[1:]
        elif not content and line.startswith("+++ "):
            path = "".join(_named(line))


def changed_paths(patch: str) -> list[str]:
    """Paths that a well-formed patch changes, makes or removes, in order, without repeats."""
    return list(dict.fromkeys(path for content, line in _lines(patch) if not content for path in _named(line)))


def headers(patch: str) -> Iterator[str]:
    """What stands in every line outside hunks that names a file for git or patch(1)."""
    named = (_NAMING.match(line) for content, line in _lines(patch) if not content)
    return (header["names"] for header in named if header)


def is_indented(patch: str) -> bool:
    """Whether it holds a diff that patch(1) reads and git does not."""
    return any(_INDENTED.match(line) for content, line in _lines(patch) if not content)


def plain_names(header: str) -> Iterator[str]:
    """What the quoted names in a header are without quotes and escapes."""
    return map(_unquoted, _QUOTED.findall(header))


def named_paths(patch: str) -> Iterator[str]:
    """Every path that git or patch(1) might take from a header of `patch`, each once, and some that they would not."""
    found: set[str] = set()
    for header in _NAMING.finditer(patch):
        for name in _readings(header["names"].strip(), both=bool(header["both"])):
            for path in _stripped(name):
                if path not in found:
                    found.add(path)
                    yield path


def _readings(names: str, *, both: bool) -> Iterator[str]:
    """What a header names, wherever its name ends; `both`: it has two, one after the other."""
    yield names
    yield from map(_unquoted, _QUOTED.findall(names))
    for space in islice(_SPACES.finditer(names), MAX_SPACES):
        yield names[: space.start()]
        if both:
            yield names[space.end() :]


def _stripped(name: str) -> Iterator[str]:
    """`name` as a path of the repository, with its first folder and without."""
    for each in (name, name.partition("/")[2]):
        path = normpath(each.lstrip("/"))
        if path.partition("/")[0] not in (".", "..", ".git") and "\0" not in path:
            yield path


def _lines(patch: str) -> Iterator[tuple[bool, str]]:
    """Whether a line is content of a hunk, and the line."""
    old = new = 0  # lines that are left of a hunk's two sides
    for line in patch.split("\n"):
        content = old > 0 or new > 0
        yield content, line
        if content:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
        elif hunk := _HUNK.match(line):
            old, new = (int(length or 1) for length in hunk.groups())


def _named(header: str) -> list[str]:
    """The paths that a line outside hunks names."""
    if sides := _SIDES.fullmatch(header):
        return [_unquoted(f'"{sides["path"]}"') if sides["quote"] else sides["path"]]
    start = next((start for start in _PATHS if header.startswith(start)), None)
    if start is None:
        return []
    path = _unquoted(header.removeprefix(start).split("\t")[0])
    if start in ("+++ ", "--- "):
        return [] if path == "/dev/null" else [path[2:] if path[:2] in ("a/", "b/") else path]
    return [path]


def _unquoted(path: str) -> str:
    """A path as git writes it: in quotes and escaped where it has special characters."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path
    plain = _ESCAPED.sub(lambda match: _byte(match[1]), path[1:-1].encode("utf-8", "surrogateescape"))
    return plain.decode("utf-8", "surrogateescape")


def _byte(escaped: bytes) -> bytes:
    return bytes([int(escaped, 8) & 255]) if len(escaped) == 3 else _LETTERS.get(escaped, escaped)


def file_diffs(patch: str) -> list[str]:
    """The parts of a git diff, one per file; what stands before the first is a part of its own."""
    parts: list[list[str]] = [[]]
    for content, line in _lines(patch):
        if not content and line.startswith("diff --git "):
            parts.append([])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts if part]


def with_new_content(patch: str, path: str, before: bytes | None, text: str) -> str | None:
    """`patch` so that it makes `text` of the file `path`; `before`: what the file was, None where there was none.

    None where the patch renames the file, or does something else to it than to change lines.
    """
    parts = file_diffs(patch)
    for number, part in enumerate(parts):
        if changed_paths(part) != [path]:
            continue
        header = part.partition("\n@@ ")[0].split("\n")
        old = (before or b"").decode("utf-8", "replace")
        if "GIT binary patch" in part or any(line.startswith(("rename ", "copy ")) for line in header):
            return None
        if (before is not None and old.encode() != before) or "\n--- " not in part:
            return None
        kept = [line for line in header if not line.startswith("index ")]
        parts[number] = "\n".join(kept) + "\n" + "".join(_hunks(old, text)).rstrip("\n")
        parts[number] += "\n" if part.endswith("\n") else ""
        return "\n".join(parts)
    return None


def _hunks(old: str, new: str) -> Iterator[str]:
    for number, line in enumerate(unified_diff(_LINE.findall(old), _LINE.findall(new))):
        if number > 1:  # after the two names
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
