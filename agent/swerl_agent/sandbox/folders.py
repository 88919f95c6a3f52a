"""Copies of files and folders between this machine and a sandbox; for folders the image needs `tar`.

Guarantees: both ways, byte count and (where the image has sha256sum) digest are checked before anything is unpacked.
Archives from a sandbox are unpacked with Python's `data` filter: no path or link leads outside the target, no devices.
What the filter refuses is left out and named; the rest is unpacked.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path

from . import files, wire
from .errors import FileError
from .files import FileSession

FOLDER_LIMIT = 1 << 30  # bytes of one folder's tar

_UNPACK = 'mkdir -p -- "$2" && tar -x -C "$2" -f "$1"; status=$?; rm -f -- "$1"; exit $status'


async def upload(session: FileSession, source: Path, target: str) -> None:
    """Copy the file or folder `source` to `target`; the content of a folder goes into the folder `target`."""
    if source.is_dir():
        packed = await asyncio.to_thread(_pack, source)
        await files.deliver(session, packed, _UNPACK, [target], what=f"folder {target}")
    elif source.is_file():
        data = await asyncio.to_thread(source.read_bytes)
        await files.write(session, target, data, source.stat().st_mode & 0o777, FOLDER_LIMIT)
    else:
        raise FileError(f"{source} is neither a file nor a folder on this machine")


async def download(session: FileSession, source: str, target: Path) -> list[str]:
    """Copy the file or folder `source` to `target`; the entries of a folder that were left out, with the reason."""
    name = wire.quoted(source)
    kind = await session.execute(f"[ -d {name} ]", timeout=files.FILE_TIMEOUT, limit=wire.OutputLimit(0, 0))
    if kind.exit_code != 0:
        data = await files.read(session, source, FOLDER_LIMIT)
        target.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(target.write_bytes, data)
        return []
    result = await files.fetch(session, f"tar -c -C {name} .", FOLDER_LIMIT, what=f"folder {source}")
    if result.exit_code != 0 or result.stdout_bytes > FOLDER_LIMIT:
        why = (
            result.stderr.decode(errors="replace").strip()
            or f"{result.stdout_bytes} bytes, the limit is {FOLDER_LIMIT}"
        )
        raise FileError(f"cannot read folder {source}: {why}")
    return await asyncio.to_thread(unpack, result.stdout, target)


def _pack(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for entry in sorted(folder.iterdir()):
            archive.add(entry, entry.name)
    return packed.getvalue()


def unpack(packed: bytes, folder: Path, limit: int = FOLDER_LIMIT) -> list[str]:
    """Unpack an archive of a sandbox into `folder`; the entries left out, with the reason. Raises FileError."""
    left_out: list[str] = []

    def keep(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        try:
            return tarfile.data_filter(member, path)
        except tarfile.FilterError as error:
            left_out.append(str(error))
            return None

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:  # a compressed one may be of any size
            size = sum(member.size for member in archive.getmembers())
            if size > limit:
                raise FileError(f"the archive from the sandbox holds {size} bytes, the limit is {limit}")
            archive.extractall(folder, filter=keep)
    except (tarfile.TarError, KeyError) as error:
        raise FileError(f"the archive from the sandbox for {folder} is refused: {error}") from error
    return left_out
