"""Files in and out of a sandbox.

Guarantees: a written file is there whole or not at all, its byte count and (where the image has sha256sum) digest
checked in the Pod before it takes its name; a read file is complete, counted in the Pod, or an error. No message is
above 1 MiB.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from . import wire
from .errors import FileError, TransferFailed

if TYPE_CHECKING:
    from .session import Session

FILE_TIMEOUT = 120.0  # seconds for the last step of a transfer
ATTEMPTS = 3  # uploads of one file until its digest is right
DAMAGED = 93  # exit code: what arrived is not what was sent

# $1 uploaded file, $2 destination, $3 bytes, $4 sha256, $5 mode.
_PLACE = (
    f'[ "$(wc -c <"$1")" -eq "$3" ] || exit {DAMAGED}; '
    f'if command -v sha256sum >/dev/null; then [ "$(sha256sum <"$1")" = "$4  -" ] || exit {DAMAGED}; fi; '
    'if [ -d "$2" ]; then echo "is a directory" >&2; exit 1; fi; '
    'case $2 in */*) mkdir -p -- "${2%/*}/" || exit 1 ;; esac; '
    'chmod "$5" "$1" && exec mv -f -- "$1" "$2"'
)


async def write(session: Session, path: str, data: bytes, mode: int) -> None:
    """Put `data` at `path`, making missing folders; raises FileError, TransferFailed."""
    digest = hashlib.sha256(data).hexdigest()
    for _ in range(ATTEMPTS):
        name = await session.put(data)
        words = f'"$sw_dir/{name}" {wire.quoted(path)} {len(data)} {digest} {mode:o}'
        result = await session.execute(f"set -- {words}; {_PLACE}", timeout=FILE_TIMEOUT, cut=wire.Cut(4096, 0))
        if result.exit_code == 0:
            return
        if result.exit_code != DAMAGED:
            raise FileError(f"cannot write {path} ({len(data)} bytes): {result.output.strip() or result.exit_code}")
    raise TransferFailed(f"{path}: {len(data)} bytes arrived damaged {ATTEMPTS} times")


async def read(session: Session, path: str, limit: int) -> bytes:
    """Content of `path`; raises FileError when it is missing, no file, or longer than `limit` bytes."""
    text = f"exec cat -- {wire.quoted(path)}"
    result = await session.execute(text, timeout=FILE_TIMEOUT, cut=wire.Cut(limit, 0))
    if result.exit_code != 0:
        raise FileError(f"cannot read {path}: {result.stderr.decode(errors='replace').strip() or result.exit_code}")
    if result.truncated:
        raise FileError(f"{path} has {result.stdout_bytes} bytes; the limit is {limit}")
    return result.stdout
