"""Child processes that run concurrently with the caller's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence


async def run_child(command: Sequence[str], env: Mapping[str, str], *, stderr: int | None = None) -> tuple[int, str]:
    """Exit code and standard output of `command`; the process is killed when the caller is cancelled.

    `stderr` as in asyncio's subprocesses; by default it is the caller's own.
    """
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.PIPE, stderr=stderr)
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    return process.returncode or 0, output.decode(errors="replace")
