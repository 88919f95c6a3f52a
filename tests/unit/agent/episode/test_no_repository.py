"""No agent begins, and no model is asked, in an image without a repository: real sessions, shells and git."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from swerl_agent.episode import (
    PROTOCOLS,
    BuiltinAgent,
    ChatAgent,
    ChatCompletions,
    Episode,
    EpisodeRequest,
    GradedEpisode,
    HFTokenizer,
    Prompts,
)
from swerl_agent.gateway import AgentExit, BlackBoxRequest, Gateway, run_black_box
from swerl_agent.integrations.mini_swe_agent_episode import MiniSweAgent, MiniSweAgentEpisodes
from swerl_agent.sandbox import Session
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec
from tests.chat_server import MODEL, ChatServer, scripted, serving
from tests.scripted_engine import Script, block
from tests.unit.agent.sandbox.conftest import ImageFolder, image_folder

__all__ = ["image_folder"]
TASK = Task("kit__kit-1", "k/k", "0" * 40, "1", "The answer is 42.", "image", GroundTruth("", "", "", ("a",), ()))
REMEDY = "; give the repository's folder as `workdir`, in the row or in the sandbox settings"
RunAgent = Callable[[EpisodeRequest, Session, HFTokenizer], Coroutine[Any, Any, tuple[Episode, int]]]


async def builtin(request: EpisodeRequest, session: Session, tokenizer: HFTokenizer) -> tuple[Episode, int]:
    script = Script(tokenizer, [block("true")])
    agent = BuiltinAgent(script, tokenizer, Prompts.default(), agent_spec(step_limit=1))
    return await agent.run_episode(request, session), len(script.read)


async def chat(request: EpisodeRequest, session: Session, tokenizer: HFTokenizer) -> tuple[Episode, int]:
    async with serving(ChatServer(scripted(block("true")))) as server, aiohttp.ClientSession() as http:
        agent = ChatAgent(ChatCompletions(server.url, http, model=MODEL), Prompts.default(), agent_spec(step_limit=1))
        return await agent.run_episode(request, session), len(server.requests)


async def mini_swe_agent(request: EpisodeRequest, session: Session, tokenizer: HFTokenizer) -> tuple[Episode, int]:
    script, protocol = Script(tokenizer, [block("true")]), "mini-swe-agent-2"
    async with Gateway(script, tokenizer) as gateway:
        agent = MiniSweAgent.of(PROTOCOLS[protocol], None)
        episodes = MiniSweAgentEpisodes(gateway, agent, agent_spec(step_limit=1, protocol=protocol))
        return await episodes.run_episode(request, session), len(script.read)


class OneRequest:
    """A program that asks the model once, without a command."""

    async def run(self, request: BlackBoxRequest) -> AgentExit:
        body = {"model": "any", "messages": [{"role": "user", "content": request.task.problem_statement}]}
        headers = {"Authorization": f"Bearer {request.endpoint.api_key}"}
        async with aiohttp.ClientSession() as http:
            await http.post(f"{request.endpoint.base_url}/chat/completions", json=body, headers=headers)
        return AgentExit("max_steps")


async def black_box(request: EpisodeRequest, session: Session, tokenizer: HFTokenizer) -> tuple[Episode, int]:
    script = Script(tokenizer, ["hello"])
    async with Gateway(script, tokenizer) as gateway:
        episode = await run_black_box(request, session, gateway, OneRequest(), agent_spec())
    return episode, len(script.read)


AGENTS: list[RunAgent] = [builtin, chat, mini_swe_agent, black_box]
every_agent = pytest.mark.parametrize("agent", AGENTS, ids=[agent.__name__ for agent in AGENTS])


@pytest.fixture
async def session(image_folder: ImageFolder, tmp_path: Path) -> AsyncIterator[Session]:
    image_folder.variables["TMPDIR"] = str(tmp_path)
    session = Session(image_folder, image="example.org/kit:1")
    yield session
    await session.close()
    await image_folder.finish()
    image_folder.remove_state(session)


def request_in(folder: Path) -> EpisodeRequest:
    return EpisodeRequest(TASK, group="g", index=0, temperature=1.0, workdir=str(folder))


@every_agent
@pytest.mark.parametrize("image_folder", ["dash"], indirect=True)
async def test_model_is_asked_where_there_is_a_repository(
    session: Session, repository: Path, tokenizer: HFTokenizer, agent: RunAgent
) -> None:
    episode, asked = await agent(request_in(repository), session, tokenizer)
    assert (episode.exit_status, asked) == ("max_steps", 1)


@every_agent
@pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True)
async def test_model_is_never_asked_without_a_repository(
    session: Session, tmp_path: Path, tokenizer: HFTokenizer, agent: RunAgent
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    episode, asked = await agent(request_in(folder), session, tokenizer)
    assert (asked, episode.commands) == (0, [])
    assert (episode.exit_status, episode.error_code) == ("infrastructure_error", "no_repository")
    why = f"the image example.org/kit:1 has no git repository at {folder}{REMEDY}"
    assert GradedEpisode(episode).loss_error == f"NoRepository: {why}"
    assert not list(tmp_path.glob(".swerl-tree-*"))


@pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True)
async def test_missing_folder_is_named(session: Session, tmp_path: Path, tokenizer: HFTokenizer) -> None:
    episode, asked = await builtin(request_in(tmp_path / "gone"), session, tokenizer)
    why = f"the image example.org/kit:1 has no folder {tmp_path / 'gone'}{REMEDY}"
    assert (asked, episode.error) == (0, f"NoRepository: {why}")


@pytest.mark.parametrize("image_folder", ["dash"], indirect=True)
async def test_image_without_git_is_named(
    image_folder: ImageFolder, session: Session, repository: Path, tokenizer: HFTokenizer
) -> None:
    (image_folder.path / "git").unlink()
    (image_folder.home / ".profile").write_text(f"export PATH={image_folder.path}\n")
    episode, asked = await builtin(request_in(repository), session, tokenizer)
    assert (asked, episode.error) == (0, f"NoRepository: the image example.org/kit:1 has no git{REMEDY}")


@pytest.mark.parametrize("image_folder", ["dash"], indirect=True)
async def test_repository_of_another_owner_is_one(
    image_folder: ImageFolder, session: Session, repository: Path, tokenizer: HFTokenizer
) -> None:
    image_folder.variables |= {
        "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_SYSTEM": str(repository.parent / "system")
    }  # fmt: skip
    shutil.copytree(repository, repository.parent / "other")
    episode, asked = await builtin(request_in(repository.parent / "other"), session, tokenizer)
    assert (episode.exit_status, asked) == ("max_steps", 1)
