"""Files in and out of a sandbox.

Guarantees: a written file is there whole or not at all, its byte count and (where the image has sha256sum) digest
checked in the Pod before it takes its name; a read file is complete, by the same two measures taken in the Pod, or an
error. No message is above 1 MiB.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import wire
from .errors import FileError, TransferFailed
from .result import CommandResult

if TYPE_CHECKING:
    from .session import Session

FILE_TIMEOUT = 120.0  # seconds for the last step of a transfer
ATTEMPTS = 3  # transfers of one file until its digest is right
DAMAGED = 93  # exit code: what arrived is not what was sent

# $1 uploaded file, $2 bytes, $3 sha256; leaves $1 and what follows.
_CHECK = (
    f'[ "$(wc -c <"$1")" -eq "$2" ] || exit {DAMAGED}; '
    f'if command -v sha256sum >/dev/null; then [ "$(sha256sum <"$1")" = "$3  -" ] || exit {DAMAGED}; fi; '
    'sw_file=$1; shift 3; set -- "$sw_file" "$@"; unset sw_file; '
)
# $1 uploaded file, $2 destination, $3 mode.
_PLACE = (
    'if [ -d "$2" ]; then echo "is a directory" >&2; exit 1; fi; '
    'case $2 in */*) mkdir -p -- "${2%/*}/" || exit 1 ;; esac; '
    'chmod "$3" "$1" && exec mv -f -- "$1" "$2"'
)
# After a command: the digest of what it printed, in the last line of its other output.
_DIGEST = " || exit; command -v sha256sum >/dev/null || exit 0; exec sha256sum </proc/self/fd/1 >&2"
_TOLD = re.compile(rb"([0-9a-f]{64})  -\n\Z")


async def write(session: Session, path: str, data: bytes, mode: int) -> None:
    """Put `data` at `path`, making missing folders; raises FileError, TransferFailed."""
    await deliver(session, data, _PLACE, [path, f"{mode:o}"], what=path)


async def deliver(session: Session, data: bytes, text: str, words: Sequence[str], *, what: str) -> None:
    """Run the shell text with a file that holds `data` as $1 and `words` after it, once the file is known to be whole.

    Raises FileError (naming `what`) when the text fails, TransferFailed.
    """
    digest = await _digest(data)
    for _ in range(ATTEMPTS):
        name = await session.put(data)
        arguments = f'"$sw_dir/{name}" {len(data)} {digest} {" ".join(map(wire.quoted, words))}'
        line = f"set -- {arguments}; {_CHECK}{text}"
        result = await session.execute(line, timeout=FILE_TIMEOUT, cut=wire.Cut(4096, 0))
        if result.exit_code == 0:
            return
        if result.exit_code != DAMAGED:
            raise FileError(f"cannot write {what} ({len(data)} bytes): {result.output.strip() or result.exit_code}")
    raise TransferFailed(f"{what}: {len(data)} bytes arrived damaged {ATTEMPTS} times")


async def read(session: Session, path: str, limit: int) -> bytes:
    """Content of `path`; raises FileError when it is missing, no file, or longer than `limit` bytes."""
    result = await fetch(session, f"cat -- {wire.quoted(path)}", limit, what=path)
    if result.exit_code != 0:
        raise FileError(f"cannot read {path}: {result.stderr.decode(errors='replace').strip() or result.exit_code}")
    if result.stdout_bytes > limit:
        raise FileError(f"{path} has {result.stdout_bytes} bytes; the limit is {limit}")
    return result.stdout


async def fetch(session: Session, text: str, limit: int, *, what: str) -> CommandResult:
    """What the shell text did; if it ended well and printed no more than `limit` bytes, what it printed is whole.

    Raises TransferFailed (naming `what`).
    """
    for _ in range(ATTEMPTS):
        result = await session.execute(text + _DIGEST, timeout=FILE_TIMEOUT, cut=wire.Cut(limit, 4096))
        told = _TOLD.search(result.stderr)
        failed = result.exit_code != 0 or result.stdout_bytes > limit
        if failed or told is None or told[1].decode() == await _digest(result.stdout):
            return result
    raise TransferFailed(f"{what}: {result.stdout_bytes} bytes arrived damaged {ATTEMPTS} times")


async def _digest(data: bytes) -> str:
    """In a thread: a gigabyte takes seconds."""
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
