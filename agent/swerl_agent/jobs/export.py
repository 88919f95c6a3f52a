"""Copies what a job wrote from its volume to this machine.

Guarantees: a folder appears under its name only when it is whole; a member that would lie outside is refused.
"""

from __future__ import annotations

import asyncio
import io
import queue
import shutil
import tarfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

from swerl_api.names import EXPORTS_FOLDER

from .errors import JobCommandError
from .output import JobOutput, names_of

WAITING_CHUNKS = 64
FILES = (  # hidden folders hold episodes that are not whole, and records of gradings
    '{ [ ! -e "$1" ] || find "$1" -type f -name "$2" -not -path \'*/.*\'; } | tar -c --ignore-failed-read -T -'
)
MISSING = "set checkpoint.export in the job, whose last step then writes one"


async def exports_of(output: JobOutput) -> list[str]:
    """Names of the job's exports, `step-<step>`, oldest first."""
    found = names_of(await output.read(f"ls {EXPORTS_FOLDER} 2>/dev/null || true"))
    return sorted((name for name in found if name.removeprefix("step-").isdigit()), key=_step)


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))


async def copy_export(output: JobOutput, target: Path, step: int | None) -> str:
    """Copy an export in Hugging Face format to `target`; its name. The newest one unless `step` is given."""
    found = await exports_of(output)
    chosen = [name for name in found if step is None or _step(name) == step]
    if not chosen:
        have = f"there are exports of {', '.join(found)}" if found else MISSING
        raise JobCommandError(f"{output.folder} has no export{'' if step is None else f' of step {step}'}; {have}")
    await copy_folder(output, f"{EXPORTS_FOLDER}/{chosen[-1]}", target)
    return chosen[-1]


async def copy_folder(output: JobOutput, folder: str, target: Path) -> None:
    """Copy `folder` of the job's to `target`, which must not exist."""
    await _copy(output, target, 'tar -c -C "$1" .', folder)


async def copy_files(output: JobOutput, place: str, pattern: str, target: Path) -> None:
    """Copy files whose name matches `pattern`, at or below `place` of the job's folder, with their paths.

    `target` must not exist; it is empty where the job has no such file.
    """
    await _copy(output, target, FILES, place, pattern)


async def _copy(output: JobOutput, target: Path, script: str, *arguments: str) -> None:
    """Extract the archive that `script` prints."""
    if target.exists():
        raise JobCommandError(f"{target} exists; name a folder that does not")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        async with aclosing(output.stream(script, *arguments)) as chunks:  # type: ignore[type-var]
            await _extract(chunks, partial)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


async def _extract(chunks: AsyncIterator[bytes], target: Path) -> None:
    """Write the archive's members while it arrives."""
    pipe = _Pipe()
    extracting = asyncio.create_task(asyncio.to_thread(_write_members, pipe, target))
    try:
        async for chunk in chunks:
            await asyncio.to_thread(pipe.put, chunk)
    finally:
        await asyncio.to_thread(pipe.put, b"")
        await extracting


def _write_members(pipe: _Pipe, target: Path) -> None:
    try:
        with tarfile.open(fileobj=pipe, mode="r|") as archive:
            archive.extractall(target, filter="data")
    finally:
        pipe.drain()


class _Pipe(io.RawIOBase):
    """Bytes from one thread to another; an empty chunk is the end."""

    def __init__(self) -> None:
        self._chunks: queue.Queue[bytes] = queue.Queue(WAITING_CHUNKS)
        self._rest, self._ended = b"", False

    def put(self, chunk: bytes) -> None:
        """Wait for room."""
        self._chunks.put(chunk)

    def drain(self) -> None:
        """Read what is left, so that no writer waits."""
        while not self._ended:
            self._ended = not self._chunks.get()

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer only at the end."""
        while not self._ended and len(self._rest) < size:
            chunk = self._chunks.get()
            self._ended = not chunk
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
