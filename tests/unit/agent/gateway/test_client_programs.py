"""Programs with the real clients of Anthropic and OpenAI as black-box agents, in a sandbox and beside it.

The sandbox is a real session with a shell on this machine; `control_plane/grading/test_black_box.py` has one in a Pod.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from swerl_agent.episode import EpisodeRequest, HFTokenizer
from swerl_agent.gateway import AgentExit, BlackBoxAgent, BlackBoxRequest, Gateway, run_black_box
from swerl_agent.sandbox import Session
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec
from tests.client_programs import FOLDER, PROGRAMS, ClientProgram, answers, check_one_sequence, variables
from tests.scripted_engine import Script
from tests.unit.agent.episode.conftest import repository
from tests.unit.agent.sandbox.conftest import ImageFolder, image_folder

from .conftest import CharacterEncoder

__all__ = ["image_folder", "repository"]
TASK = Task("kit__kit-1", "k/k", "0" * 40, "1", "The answer is 42.", "image", GroundTruth("", "", "", ("a",), ()))
COMMANDS = ("cat kit.py", "sed -i s/41/42/ kit.py", "cat kit.py")


class BesideTheSandbox:
    """The program is one of this machine, and its commands run in the sandbox."""

    def __init__(self, program: str, environment: pytest.MonkeyPatch) -> None:
        self.program, self.environment = program, environment

    async def run(self, request: BlackBoxRequest) -> AgentExit:
        for name, value in variables(self.program, request.endpoint).items():
            self.environment.setenv(name, value)
        loop = asyncio.get_running_loop()

        def run(command: str) -> str:
            return asyncio.run_coroutine_threadsafe(request.shell.run(command), loop).result().stdout.decode()

        work = importlib.import_module(f"tests.client_programs.{self.program}").work
        await asyncio.to_thread(work, request.task.problem_statement, run)
        return AgentExit("submitted")


@pytest.fixture
async def session(image_folder: ImageFolder, tmp_path: Path) -> AsyncIterator[Session]:
    image_folder.variables["TMPDIR"] = str(tmp_path)
    session = Session(image_folder)
    yield session
    await session.close()
    await image_folder.finish()
    image_folder.remove_state(session)


@pytest.mark.parametrize("image_folder", ["dash"], indirect=True)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("place", ["in", "beside"])
async def test_program_leaves_one_training_sequence_and_a_patch(
    session: Session,
    repository: Path,
    with_tools: HFTokenizer,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    place: str,
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    engine = Script(CharacterEncoder(with_tools), answers(*COMMANDS))  # type: ignore[arg-type]
    agent: BlackBoxAgent = (
        ClientProgram(program, FOLDER, sys.executable) if place == "in" else BesideTheSandbox(program, monkeypatch)
    )
    request = EpisodeRequest(TASK, group="g", index=0, temperature=1.0, workdir=str(repository))
    async with Gateway(engine, with_tools) as gateway:
        episode = await run_black_box(request, session, gateway, agent, agent_spec(), agent_name=program)
    assert (episode.exit_status, episode.error) == ("submitted", None)
    assert episode.patch and "+answer = 42" in episode.patch
    assert "answer = 41" in engine.read[1] and "answer = 42" in engine.read[3]
    check_one_sequence(episode, with_tools, answers(*COMMANDS))
