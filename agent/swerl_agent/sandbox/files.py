"""Files in and out of a sandbox.

Guarantees: a written file appears complete or not at all. Before it gets its name, the Pod checks its byte count and
(where the image has sha256sum) its digest. A read file is complete by the same two measures, taken in the Pod, or an
error. No message exceeds 1 MiB. A file that exists keeps its owner, its mode unless another is given, and the symbolic
links that lead to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from . import wire
from .errors import (
    AccessDenied,
    FileError,
    FileMissing,
    FileTooLarge,
    NotAFile,
    PathIsDirectory,
    TransferFailed,
)
from .result import CommandResult

FILE_TIMEOUT = 120.0  # seconds for the last step of a transfer
TRANSFER_RETRIES = 2  # of one file whose digest is wrong
# Exit codes. DAMAGED: the data that arrived differs from the data sent.
DAMAGED, MISSING, DIRECTORY, SPECIAL, TOO_LARGE = 93, 94, 95, 96, 97
KINDS: Mapping[int, tuple[type[FileError], str]] = {
    MISSING: (FileMissing, "it does not exist"),
    DIRECTORY: (PathIsDirectory, "it is a directory"),
    SPECIAL: (NotAFile, "it is a pipe, a socket or a device"),
}
DENIED = ("Permission denied", "Operation not permitted", "Read-only file system")
NEW_FILE_MODE = 0o644

# $1 uploaded file, $2 bytes, $3 sha256; leaves $1 and what follows.
_CHECK = (
    f'[ "$(wc -c <"$1")" -eq "$2" ] || exit {DAMAGED}; '
    f'if command -v sha256sum >/dev/null; then [ "$(sha256sum <"$1")" = "$3  -" ] || exit {DAMAGED}; fi; '
    'sw_file=$1; shift 3; set -- "$sw_file" "$@"; unset sw_file; '
)
# $1 uploaded file, $2 destination, $3 mode or empty, $4 mode of a new file. `cp -p` makes a file with owner and mode of
# the old one. A user who cannot give files away writes into the old one.
_PLACE = (
    'if [ -L "$2" ] && sw_to=$(readlink -f -- "$2"); then set -- "$1" "$sw_to" "$3" "$4"; unset sw_to; fi; '
    f'if [ -d "$2" ]; then exit {DIRECTORY}; elif [ -e "$2" ] && [ ! -f "$2" ]; then exit {SPECIAL}; fi; '
    'case $2 in */*) mkdir -p -- "${2%/*}/" || exit 1 ;; esac; '
    'if [ ! -f "$2" ]; then chmod "${3:-$4}" "$1" && exec mv -f -- "$1" "$2"; exit; fi; '
    'if [ -O "$2" ] || [ "$(id -u)" = 0 ]; then '
    'cp -p -- "$2" "$1.new" && cat -- "$1" >"$1.new" && mv -f -- "$1.new" "$2"; else cat -- "$1" >"$2"; fi; '
    'sw_code=$?; rm -f -- "$1" "$1.new"; [ "$sw_code" -eq 0 ] && [ -n "$3" ] && exec chmod "$3" "$2"; exit "$sw_code"'
)
# $1 file, $2 most bytes: a larger one would not fit in the file that holds a command's output.
_READ = (
    f'if [ -d "$1" ]; then exit {DIRECTORY}; elif [ -e "$1" ] && [ ! -f "$1" ]; then exit {SPECIAL}; '
    f'elif [ ! -e "$1" ]; then cat -- "$1"; exit {MISSING}; fi; '
    f'sw_size=$(wc -c <"$1") && [ "$sw_size" -gt "$2" ] && {{ echo $sw_size >&2; exit {TOO_LARGE}; }}; cat -- "$1"'
)
# After a command: the digest of its output, in the last line of its standard error.
_DIGEST_STDOUT = " || exit; command -v sha256sum >/dev/null || exit 0; exec sha256sum </proc/self/fd/1 >&2"
_DIGEST_LINE = re.compile(rb"([0-9a-f]{64})  -\n\Z")


class FileSession(Protocol):
    """What a transfer needs of a Session."""

    async def put(self, data: bytes) -> str:
        """See Session.put."""
        ...

    async def execute(self, text: str, *, timeout: float, limit: wire.OutputLimit) -> CommandResult:
        """See Session.execute."""
        ...


async def write(session: FileSession, path: str, data: bytes, mode: int | None, limit: int) -> None:
    """Write `data` to `path` and create missing folders; raises FileError, TransferFailed.

    `mode`: of the file; None: as it is, 644 for a new file.
    """
    if len(data) > limit:
        raise FileTooLarge(f"cannot write {path}: {len(data)} bytes; the limit is {limit}")
    given = "" if mode is None else f"{mode:o}"
    await deliver(session, data, _PLACE, [path, given, f"{NEW_FILE_MODE:o}"], what=path)


async def deliver(session: FileSession, data: bytes, text: str, words: Sequence[str], *, what: str) -> None:
    """Upload `data` to a file, check it there, and run the shell text with the file as $1 and `words` after it.

    Raises FileError (naming `what`) when the text fails, TransferFailed.
    """
    digest = await _digest(data)
    for _ in range(1 + TRANSFER_RETRIES):
        name = await session.put(data)
        arguments = f'"$sw_dir/{name}" {len(data)} {digest} {" ".join(map(wire.quoted, words))}'
        line = f"set -- {arguments}; {_CHECK}{text}"
        result = await session.execute(line, timeout=FILE_TIMEOUT, limit=wire.OutputLimit(4096, 0))
        if result.exit_code == 0:
            return
        if result.exit_code != DAMAGED:
            raise _error(f"cannot write {what} ({len(data)} bytes)", result)
    raise TransferFailed(f"{what}: {len(data)} bytes arrived damaged {1 + TRANSFER_RETRIES} times")


async def read(session: FileSession, path: str, limit: int) -> bytes:
    """Content of `path`; raises FileError when it is missing, not a file, or longer than `limit` bytes."""
    result = await fetch(session, f"set -- {wire.quoted(path)} {limit}; {_READ}", limit, what=path)
    if result.exit_code == TOO_LARGE:
        raise FileTooLarge(f"{path} has {result.stderr.decode(errors='replace').strip()} bytes; the limit is {limit}")
    if result.exit_code != 0:
        raise _error(f"cannot read {path}", result)
    if result.stdout_bytes > limit:  # it grew meanwhile
        raise FileTooLarge(f"{path} has {result.stdout_bytes} bytes; the limit is {limit}")
    return result.stdout


def _error(what: str, result: CommandResult) -> FileError:
    said = result.stderr.decode(errors="replace").strip()
    if any(text in said for text in DENIED):
        return AccessDenied(f"{what}: {said}")
    kind, why = KINDS.get(result.exit_code, (FileError, said or f"exit code {result.exit_code}"))
    return kind(f"{what}: {why}")


async def fetch(session: FileSession, text: str, limit: int, *, what: str) -> CommandResult:
    """The result of the shell text. If it succeeded with at most `limit` bytes, its output is complete.

    Raises TransferFailed (naming `what`).
    """
    for _ in range(1 + TRANSFER_RETRIES):
        result = await session.execute(text + _DIGEST_STDOUT, timeout=FILE_TIMEOUT, limit=wire.OutputLimit(limit, 4096))
        reported = _DIGEST_LINE.search(result.stderr)
        failed = result.exit_code != 0 or result.stdout_bytes > limit
        if failed or reported is None or reported[1].decode() == await _digest(result.stdout):
            return result
    raise TransferFailed(f"{what}: {result.stdout_bytes} bytes arrived damaged {1 + TRANSFER_RETRIES} times")


async def _digest(data: bytes) -> str:
    """In a thread: a gigabyte takes seconds."""
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
