"""What an episode needs of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from swerl_agent.sandbox import CommandResult


class CommandRunner(Protocol):
    """Runs commands in one sandbox; `swerl_agent.sandbox.Session` is one."""

    image: str  # as its node resolved it

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = ...,
    ) -> CommandResult: ...

    def without_profile(self) -> AbstractAsyncContextManager[CommandRunner]:
        """Another session of the same sandbox, whose commands start in plain `sh` without the login profile."""
        ...
