"""Patches of a work tree after commands of an agent, with real git in real folders."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from swerl_agent.episode.baseline import DIFF_TIMEOUT, Baseline, Patch
from swerl_agent.episode.workspace import ENVIRONMENT

from .conftest import Shell

FIX = "sed -i s/41/42/ kit.py"
IDENTITY = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b"
COMMIT = f"{IDENTITY}; git add -A; git commit -qm fix"


def patch_after(
    folder: Path, *commands: str, twice: bool = False, shell: Shell | None = None, diff_timeout: float = DIFF_TIMEOUT
) -> Patch:
    """The patch after commands of an agent."""
    shell = shell or Shell(folder)

    async def episode() -> Patch:
        baseline = Baseline(shell, str(folder), ENVIRONMENT, diff_timeout=diff_timeout)
        baseline.begin()
        await baseline.ready()
        for command in commands:
            await shell.run(command, timeout=60)
        first = await baseline.patch()
        return await baseline.patch() if twice else first

    return asyncio.run(episode())


def applied(patch: Patch, folder: Path) -> None:
    """Apply a patch as grading does."""
    text = patch.text.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "--verbose", "-"], cwd=folder, input=text, check=True)
