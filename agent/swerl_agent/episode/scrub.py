"""Removal of the task's tests that the image contains.

Guarantee: the agent runs no command before every such path is removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol

from swerl_agent.sandbox import CommandResult, SandboxError

TIMEOUT = 120.0  # seconds


class ScrubTestsFailed(SandboxError):
    """Tests in the image could not be removed from the sandbox."""

    code = "scrub_tests_failed"


class Shell(Protocol):
    """A sandbox that runs commands."""

    async def run(self, command: str, *, timeout: float) -> CommandResult: ...


async def scrub_tests(shell: Shell, paths: Sequence[str]) -> None:
    """Remove those of `paths` that exist; raises SandboxError when one remains."""
    if not paths:
        return
    quoted_paths = " ".join(map(shlex.quote, paths))
    command = f'rm -rf -- {quoted_paths}; for path in {quoted_paths}; do [ ! -e "$path" ] || exit 1; done'
    result = await shell.run(command, timeout=TIMEOUT)
    if result.exit_code != 0 or result.timed_out:
        raise ScrubTestsFailed(f"tests in the image cannot be removed: {result.output.strip() or result.exit_code}")
