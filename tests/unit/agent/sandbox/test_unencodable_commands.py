"""A NUL or a lone surrogate in a command of other agents: it runs as what a shell can take."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from swerex.runtime.abstract import BashAction, BashObservation, Command
from swerl_agent.integrations.swe_rex_runtime import SandboxRuntime
from swerl_agent.sandbox import CommandResult, Session

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

from swerl_agent.integrations.mini_swe_agent import SandboxEnvironment, SandboxEnvironmentConfig

if TYPE_CHECKING:
    from .conftest import ImageFolder

T = TypeVar("T")
COMMAND, OUTPUT = "printf '%s' '\ud800\0x\udcff'", "\ufffdx\ufffd"

pytestmark = pytest.mark.parametrize("image_folder", ["dash"], indirect=True)


class SessionOfThread:
    """The blocking face of a session, called in another thread than its event loop's."""

    def __init__(self, session: Session) -> None:
        self._session, self._loop = session, asyncio.get_running_loop()

    def run(self, command: str, **options: Any) -> CommandResult:
        return asyncio.run_coroutine_threadsafe(self._session.run(command, **options), self._loop).result(60)


class SameLoop:
    """Runs a coroutine where the caller is."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work


class EchoShell:
    """A bash session that shows what it was given."""

    async def run(self, action: BashAction) -> BashObservation:
        return BashObservation(output=action.command, exit_code=0)


@pytest.mark.parametrize("interpreter", [["bash", "-lc"], ["bash", "-c"]], ids=" ".join)
async def test_command_of_mini_swe_agent(session: Session, image_folder: ImageFolder, interpreter: list[str]) -> None:
    environment = SandboxEnvironment.__new__(SandboxEnvironment)
    environment.config = SandboxEnvironmentConfig(image="i", interpreter=interpreter, cwd=str(image_folder.home))
    environment.sandbox = SessionOfThread(session)  # type: ignore[assignment]
    observation = await asyncio.to_thread(environment.execute, {"command": COMMAND})
    assert (observation["output"], observation["returncode"]) == (OUTPUT, 0)


async def test_command_of_swe_rex(session: Session) -> None:
    runtime = SandboxRuntime(session, None, SameLoop())  # type: ignore[arg-type]
    done = await runtime.execute(Command(command=COMMAND, shell=True))
    assert (done.stdout, done.exit_code) == (OUTPUT, 0)
    words = ["sh", "-c", "printf '%s' \"$0\"", "\ud800\0x"]
    assert (await runtime.execute(Command(command=words))).stdout == "\ufffdx"
    runtime._shells["default"] = EchoShell()  # type: ignore[assignment]
    observation = await runtime.run_in_session(BashAction(command=COMMAND))
    assert isinstance(observation, BashObservation) and observation.output == f"printf '%s' '{OUTPUT}'"
