"""Commands as they reach the sandbox, and diffs that do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from swerl_agent.episode.baseline import Patch
from swerl_agent.episode.workspace import Workspace
from swerl_agent.sandbox import CommandResult
from swerl_api import AgentSpec

from .conftest import PATCH


class Sandbox:
    """A session that records its commands and returns one result."""

    def __init__(self, result: CommandResult) -> None:
        self.result = result
        self.commands: list[dict[str, Any]] = []

    async def run(self, command: str, **options: Any) -> CommandResult:
        self.commands.append({"command": command, **options})
        return self.result

    @asynccontextmanager
    async def without_profile(self) -> AsyncIterator[Sandbox]:
        yield self


def result(stdout: bytes, exit_code: int = 0, *, timed_out: bool = False) -> CommandResult:
    return CommandResult("c", exit_code, stdout, b"diff ended\n", len(stdout), 11, timed_out, 0.1)


async def test_no_command_pages_or_draws() -> None:
    sandbox = Sandbox(result(b""))
    workspace = Workspace(sandbox, AgentSpec(), "/testbed")
    await workspace.execute("git log", seconds_left=9)
    await workspace.baseline.patch()
    assert len(sandbox.commands) == 2
    for recorded in sandbox.commands:
        assert (
            recorded["env"].items()
            >= {"PAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}.items()
        )
        assert recorded["cwd"] == "/testbed"


async def test_diff_that_does_not_end_is_no_patch_and_no_error() -> None:
    sandbox = Sandbox(result(PATCH, 137, timed_out=True))
    patch = await Workspace(sandbox, AgentSpec(), "/testbed").baseline.patch()
    assert patch == Patch("", ("every change: git did not end in time",))
    assert sandbox.commands[0]["timeout"] == 60


async def test_shell_that_ends_before_the_diff_is_no_silent_end() -> None:
    empty_result = CommandResult("c", 0, b"", b"", 0, 0, False, 0.1)
    patch = await Workspace(Sandbox(empty_result), AgentSpec(), "/testbed").baseline.patch()
    assert patch == Patch("", ("every change: the shell ended before the diff did",))


async def test_deleted_work_tree_is_named_and_no_other_session_is_opened() -> None:
    class Deleted(Sandbox):
        async def run(self, command: str, **options: Any) -> CommandResult:
            await super().run(command, **options)
            code, stderr = (
                (1, b"") if options["cwd"] == "/" else (126, b"cannot change to the working directory /testbed")
            )
            return CommandResult("c", code, b"", stderr, 0, len(stderr), False, 0.1)

        def without_profile(self) -> Any:
            raise AssertionError("a session cannot start in a folder that is gone")

    patch = await Workspace(Deleted(result(b"")), AgentSpec(), "/testbed").baseline.patch()
    assert patch.text == "" and "cannot change to the working directory /testbed" in patch.left_out[0]


async def test_diff_without_its_end_is_no_patch() -> None:
    truncated = CommandResult("c", 0, PATCH, b"", len(PATCH) + 1, 0, False, 0.1)
    patch = await Workspace(Sandbox(truncated), AgentSpec(), "/testbed").baseline.patch()
    assert patch.text == "" and "more than 8388608" in patch.left_out[0]
