"""The built-in agent with a chat-completions server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.episode import (
    ChatAgent,
    ChatCompletions,
    Episode,
    EpisodeRequest,
    Prompts,
    RetryPolicy,
    agent_metrics,
    agent_protocol,
    write_artifacts,
)
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec
from tests.chat_server import MODEL, Body, ChatServer, Reply, error, max_answer_tokens, scripted, serving, turn
from tests.scripted_engine import block

from .conftest import SUBMIT, CannedSession, Shell

TASK = Task("kit__kit-1", "kit/kit", "0" * 40, "1", "The answer is 42.", "image", GroundTruth("", "", "", ("a",), ()))
FIX = "sed -i s/41/42/ kit.py"
LONG = "x" * 1500
RunEpisode = Callable[..., Awaitable[Episode]]


@pytest.fixture
def attempt(repository: Path) -> RunEpisode:
    async def attempt(server: ChatServer, shell: Any = None, **limits: Any) -> Episode:
        spec = agent_spec(**limits)
        async with serving(server), aiohttp.ClientSession() as http:
            chat = ChatCompletions(server.url, http, model=MODEL, retry_policy=RetryPolicy(retries=1, first_delay=0.01))
            agent = ChatAgent(chat, Prompts.default(agent_protocol(spec)), spec)
            request = EpisodeRequest(TASK, group="g3", index=2, temperature=0.5, workdir=str(repository))
            return await agent.run_episode(request, shell or Shell(repository))

    return attempt


async def test_chat_episode_solves_a_task_and_writes_artifacts_without_tokens(
    attempt: RunEpisode, tmp_path: Path
) -> None:
    server = ChatServer(scripted(block("cat kit.py"), block(FIX), block(SUBMIT)))
    episode = await attempt(server)
    assert (episode.exit_status, episode.patch_source, episode.turns) == ("submitted", "submission", 3)
    assert episode.patch and "-answer = 41\n+answer = 42" in episode.patch
    assert [message["role"] for message in episode.messages] == [
        "system",
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]
    assert [(step["step_idx"], step["action"]) for step in episode.commands] == [
        (0, "cat kit.py"),
        (1, FIX),
        (2, SUBMIT),
    ]
    assert "answer = 41" in server.requests[1]["messages"][3]["content"]
    assert (server.requests[0]["temperature"], max_answer_tokens(server.requests[0])) == (0.5, 4096)

    assert (episode.segments, episode.sampled_tokens) == ([], 0)
    counted = episode.usage
    assert (counted["requests"], counted["cached_tokens"]) == (3, 3) and counted["prompt_tokens"] > 0
    assert agent_metrics(episode)["turns"] == 3 and episode.timings["model"] > 0
    folder = write_artifacts(tmp_path / "out", episode, None)
    trajectory = json.loads((folder / "traj.json").read_text())
    assert trajectory["segments"] == [] and trajectory["messages"] == episode.messages
    assert len(trajectory["step_debug"]) == 3


async def test_reasoning_is_kept_and_not_sent_again(attempt: RunEpisode) -> None:
    def reply(body: Body) -> Reply:
        if turn(body) == 0:
            return {
                "role": "assistant",
                "content": block("ls"),
                "reasoning_content": "Let me look: " + block("rm -r ."),
            }
        if turn(body) == 1:
            return {"role": "assistant", "content": None, "reasoning_content": "I go on"}
        return block(SUBMIT)

    server = ChatServer(reply)
    episode = await attempt(server)
    answers = [message["content"] for message in episode.messages if message["role"] == "assistant"]
    assert answers[0].startswith("<think>Let me look: ") and answers[1] == "<think>I go on</think>"
    assert [step["action"] for step in episode.commands] == ["ls", SUBMIT]
    assert episode.format_errors == 1
    sent = [message["content"] for message in server.requests[2]["messages"] if message["role"] == "assistant"]
    assert sent == [block("ls"), "(no text)"]


async def test_turns_are_left_out_before_the_window_is_full_as_the_server_counts(attempt: RunEpisode) -> None:
    server = ChatServer(lambda body: block(f"echo {len(server.requests)}; printf %s {LONG}"))
    episode = await attempt(server, CannedSession(), context_tokens=4000, max_tokens_per_turn=500, step_limit=12)
    assert (episode.exit_status, episode.turns) == ("max_steps", 12)
    assert episode.omitted_turns > 0
    lengths = [len(json.dumps(body["messages"])) // 4 for body in server.requests]
    assert all(length + max_answer_tokens(body) <= 4000 for length, body in zip(lengths, server.requests, strict=True))
    last = server.requests[-1]["messages"]
    assert last[:1] == server.requests[0]["messages"][:1]
    assert any("left out here: the context window is full" in message["content"] for message in last)
    assert "ran echo 11;" in last[-1]["content"]
    roles = [message["role"] for message in last]
    assert roles == ["system", "user", *["assistant", "user"] * ((len(roles) - 2) // 2)]


@pytest.mark.parametrize("counts", [True, False])
async def test_turns_are_left_out_when_the_server_says_that_its_window_is_full(
    attempt: RunEpisode, counts: bool
) -> None:
    server = ChatServer(scripted(block(f"printf %s {LONG}")), window=4000, counts=counts)
    episode = await attempt(server, CannedSession(), max_tokens_per_turn=500, step_limit=8)
    assert (episode.exit_status, episode.turns, episode.infrastructure_error) == ("max_steps", 8, False)
    assert episode.omitted_turns > 0


@pytest.mark.parametrize(("window", "limits"), [(4000, {}), (None, {"context_tokens": 4000})])
async def test_episode_may_stop_where_turns_would_be_left_out(
    attempt: RunEpisode, window: int | None, limits: dict[str, int]
) -> None:
    server = ChatServer(scripted(block(f"printf %s {LONG}")), **({"window": window} if window else {}))
    how = {"max_tokens_per_turn": 500, "step_limit": 12, "context_policy": "stop", **limits}
    episode = await attempt(server, CannedSession(), **how)
    assert (episode.exit_status, episode.infrastructure_error, episode.omitted_turns) == ("context_overflow", False, 0)
    assert 1 <= episode.turns < 8
    assert not any("left out here" in json.dumps(body) for body in server.requests)


async def test_window_that_the_newest_turn_fills_ends_the_episode(attempt: RunEpisode) -> None:
    server = ChatServer(scripted(block(f"printf %s {3 * LONG}")), window=2500)
    episode = await attempt(server, CannedSession(), max_tokens_per_turn=500, step_limit=8)
    assert (episode.exit_status, episode.infrastructure_error) == ("context_overflow", False)
    assert episode.turns >= 1


async def test_prompt_longer_than_the_window_is_one_clear_error(attempt: RunEpisode) -> None:
    episode = await attempt(ChatServer(scripted("never"), window=300), max_tokens_per_turn=100)
    assert (episode.exit_status, episode.infrastructure_error, episode.turns) == ("prompt_too_long", False, 0)
    assert episode.error and "the prompt of kit__kit-1 does not fit into the window of the model" in episode.error
    assert episode.error.endswith("serve a longer one or leave the task out with tasks.filter")


async def test_answer_cut_for_length_is_marked(attempt: RunEpisode) -> None:
    truncated = {"choices": [{"message": {"content": "```bash\nls"}, "finish_reason": "length"}]}

    def reply(body: Body) -> Reply:
        return web.json_response(truncated) if turn(body) == 0 else block(SUBMIT)

    server = ChatServer(reply)
    episode = await attempt(server)
    assert episode.format_errors == 1
    observation = server.requests[1]["messages"][-1]["content"]
    assert observation.startswith(Prompts.default().format_error([], truncated=True))


async def test_server_that_refuses_is_an_infrastructure_error(attempt: RunEpisode) -> None:
    for reply, code in ((error(401, "expired"), "endpoint_refused"), (error(503, "down"), "engine_lost")):
        episode = await attempt(ChatServer(scripted(block(FIX), reply)))
        assert (episode.exit_status, episode.error_code) == ("infrastructure_error", code)
        assert episode.infrastructure_error and episode.turns == 1


async def test_chat_episode_uses_protocols_with_code_blocks(attempt: RunEpisode) -> None:
    answer = "```mswea_bash_command\n{}\n```"
    server = ChatServer(scripted(answer.format(FIX), answer.format(SUBMIT)))
    episode = await attempt(server, protocol="mini-swe-agent-2")
    assert (episode.exit_status, episode.turns) == ("submitted", 2)
    assert episode.patch
