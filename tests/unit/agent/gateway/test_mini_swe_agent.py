"""The unmodified mini-swe-agent, with its own model client, through the gateway, in a real repository."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from swerl_agent.cli import parse
from swerl_agent.cli.model import chosen_agent
from swerl_agent.episode import PROTOCOLS, EngineError, Episode, EpisodeRequest, HFTokenizer, PromptError, agent_metrics
from swerl_agent.gateway import Gateway
from swerl_agent.integrations.mini_swe_agent_episode import MiniSweAgent, MiniSweAgentEpisodes
from swerl_agent.sandbox import SandboxError, SandboxLost
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script
from tests.unit.agent.episode.conftest import TOOLS as TOOL_TEMPLATE
from tests.unit.agent.episode.conftest import Shell, make_tokenizer, repository

from .conftest import BlockedScript, CharacterEncoder, Open

__all__ = ["repository"]
TASK = Task("kit__kit-1", "k/k", "0" * 40, "1", "The answer is 42.", "image", GroundTruth("", "", "", ("a",), ()))
FIX = "sed -i s/41/42/ kit.py"
SUBMIT = ["git diff -- kit.py > patch.txt", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"]
TEXT, TOOLS = "mini-swe-agent-2", "mini-swe-agent-2-tools"


def block(command: str) -> str:
    return f"THOUGHT: next.\n\n```mswea_bash_command\n{command}\n```"


def call(*commands: str) -> str:
    calls = [
        f"<tool_call>\n<function=bash>\n<parameter=command>\n{c}\n</parameter>\n</function>\n</tool_call>"
        for c in commands
    ]
    return "\n".join(["<think>hm</think>Next.", *calls])


class Episodes:
    """Episodes of mini-swe-agent in one repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine: Any = Script(None, ())  # type: ignore[arg-type]
        self.config: str | None = None

    async def __call__(
        self,
        tokenizer: HFTokenizer,
        *answers: str | Exception,
        protocol: str = TEXT,
        kind: type[Script] = Script,
        failure: SandboxError | None = None,
        **limits: Any,
    ) -> Episode:
        self.engine = kind(CharacterEncoder(tokenizer), answers)  # type: ignore[arg-type]
        spec = agent_spec(**limits, protocol=protocol)
        async with Gateway(self.engine, tokenizer) as gateway:
            agent = MiniSweAgentEpisodes(gateway, MiniSweAgent.of(PROTOCOLS[protocol], self.config), spec)
            request = EpisodeRequest(TASK, group="g", index=3, temperature=1.0, workdir=str(self.folder))
            return await agent.run_episode(request, Shell(self.folder, failure))


@pytest.fixture
def attempt(repository: Path) -> Episodes:
    return Episodes(repository)


@pytest.fixture(autouse=True)
def proxy_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")


async def test_solved_task_yields_one_segment(attempt: Episodes, plain: HFTokenizer) -> None:
    episode = await attempt(plain, *map(block, ["cat kit.py", FIX, *SUBMIT]))
    assert (episode.exit_status, episode.patch_source, episode.turns) == ("submitted", "submission", 4)
    assert episode.patch and "-answer = 41\n+answer = 42" in episode.patch
    assert (episode.group, episode.index, episode.error, episode.agent_name) == ("g", 3, None, "mini-swe-agent")
    (segment,) = episode.segments
    for step, start, end in segment.answers:
        text = plain.decode(segment.tokens[start : end - 1])
        assert text == block(["cat kit.py", FIX, *SUBMIT][step])
    assert sum(segment.loss_mask) == episode.sampled_tokens
    assert [(step["step_idx"], step["action"]) for step in episode.commands][:2] == [(0, "cat kit.py"), (1, FIX)]
    assert episode.commands[0]["output_head"] == "answer = 41\n"
    assert "The answer is 42." in attempt.engine.read[0] and "<returncode>0</returncode>" in attempt.engine.read[1]
    assert episode.timings["total"] > episode.timings["model"] > 0 < episode.timings["environment"]


async def test_tool_protocol_allows_reasoning_and_several_calls(attempt: Episodes, with_tools: HFTokenizer) -> None:
    answers = [call("cat kit.py", "ls"), call(FIX), call(SUBMIT[0]), call(SUBMIT[1])]
    episode = await attempt(with_tools, *answers, protocol=TOOLS)
    assert (episode.exit_status, episode.turns, len(episode.commands)) == ("submitted", 4, 5)
    assert [m["content"] for m in episode.messages if m["role"] == "assistant"] == answers
    assert [m["role"] for m in episode.messages[:5]] == ["system", "user", "assistant", "tool", "tool"]
    assert len(episode.segments) == 1


async def test_episode_is_one_training_sequence(attempt: Episodes, plain: HFTokenizer, with_tools: HFTokenizer) -> None:
    texts = ["cat kit.py; exit 3", "head -c 30000 /dev/zero | tr '\\0' x", FIX, *SUBMIT]
    episodes = [
        await attempt(plain, *map(block, texts)),
        await attempt(plain, *(f"<think>hm</think>{block(text)}" for text in texts)),
        await attempt(with_tools, *map(call, texts), protocol=TOOLS),
        await attempt(with_tools, call(*texts[:3]), *map(call, SUBMIT), protocol=TOOLS),
        await attempt(plain, block("ls"), "no command", *map(block, [FIX, *SUBMIT])),  # the last is dropped
    ]
    assert [episode.exit_status for episode in episodes] == ["submitted"] * 5
    counts = [agent_metrics(episode)["sequences"] for episode in episodes]
    assert counts == [1, 1, 1, 1, 2]
    assert sum(counts) / len(counts) <= 1.2


async def test_answers_without_a_command_end_the_episode_and_become_branches(
    attempt: Episodes, plain: HFTokenizer
) -> None:
    episode = await attempt(plain, *["no command"] * 3)
    assert (episode.exit_status, episode.format_errors, episode.turns) == ("repeated_format_errors", 3, 3)
    assert [len(segment.answers) for segment in episode.segments] == [1, 1, 1]


async def test_without_a_submission_the_work_trees_changes_are_the_patch(attempt: Episodes, plain: HFTokenizer) -> None:
    episode = await attempt(plain, block(FIX), block("ls"), step_limit=2)
    assert (episode.exit_status, episode.patch_source) == ("max_steps", "git_diff_fallback")
    assert episode.patch and "+answer = 42" in episode.patch


@pytest.mark.parametrize(
    ("template", "text", "message", "turns"),
    [
        ("agent.instance_template", "a\n{{ 1 // (task|length - 17) }}", "ZeroDivisionError", 0),
        ("model.observation_template", "{{ output.output }}\n{{ output.nope }}", "UndefinedError", 1),
        ("model.format_error_template", "{% if error %}\n{{ nope }}{% endif %}", "UndefinedError", 1),
    ],
)
async def test_template_that_does_not_render_ends_the_episode_by_name(
    attempt: Episodes, plain: HFTokenizer, template: str, text: str, message: str, turns: int
) -> None:
    section, name = template.split(".")
    config = dict(MiniSweAgent.of(PROTOCOLS[TEXT]).config)
    attempt.config = yaml.safe_dump(config | {section: config[section] | {name: text}})
    answer = "no command" if name == "format_error_template" else block(FIX)
    episode = await attempt(plain, answer)
    assert (episode.exit_status, episode.error_code, episode.turns) == ("prompt_failed", "prompt_failed", turns)
    assert episode.error is not None and episode.error.startswith(f"{template} does not render: {message}: ")
    assert ", in line 2: {{ " in episode.error and not episode.infrastructure_error
    assert [message_["content"] for message_ in episode.messages if message_["role"] == "assistant"] == [answer] * turns


@pytest.mark.parametrize(("context", "status"), [(3000, "prompt_too_long"), (9000, "context_overflow")])
async def test_full_window_ends_the_episode(attempt: Episodes, plain: HFTokenizer, context: int, status: str) -> None:
    episode = await attempt(
        plain, *[block("cat kit.py; head -c 3000 /dev/zero | tr '\\0' x")] * 9, context_tokens=context
    )
    assert (episode.exit_status, episode.infrastructure_error) == (status, False)
    assert bool(episode.error) == (status == "prompt_too_long")


async def test_lost_engine_is_an_infrastructure_error(attempt: Episodes, plain: HFTokenizer) -> None:
    episode = await attempt(plain, block("ls"), EngineError("gone"))
    assert (episode.exit_status, episode.infrastructure_error) == ("infrastructure_error", True)
    assert episode.error == "EngineError: gone"
    assert sum(len(segment.answers) for segment in episode.segments) == 1


async def test_lost_sandbox_is_an_infrastructure_error(attempt: Episodes, plain: HFTokenizer) -> None:
    episode = await attempt(plain, block("ls"), failure=SandboxLost("the node is gone"))
    assert (episode.exit_status, episode.infrastructure_error) == ("infrastructure_error", True)
    assert "the node is gone" in str(episode.error)


@pytest.mark.parametrize("command", ["sleep 60", None])
async def test_episodes_time_ends_command_and_request(
    attempt: Episodes, plain: HFTokenizer, command: str | None
) -> None:
    kind = Script if command else BlockedScript
    episode = await attempt(plain, block(command or ""), kind=kind, episode_timeout_seconds=4)
    assert (episode.exit_status, episode.infrastructure_error) == ("episode_timeout", False)


async def test_cancelled_check_leaves_no_running_process(attempt: Episodes, plain: HFTokenizer) -> None:
    running = asyncio.create_task(attempt(plain, block("sleep 60")))
    async with asyncio.timeout(30):
        while not attempt.engine.read:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for thread in threading.enumerate():
        if "mini-swe-agent" in thread.name:
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()


async def test_own_script_needs_only_the_address(opened: Open, repository: Path) -> None:
    from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

    async with opened(*map(block, [FIX, *SUBMIT])) as gateway_episode:
        model = LitellmTextbasedModel(
            model_name="openai/policy",
            model_kwargs={"api_base": gateway_episode.endpoint.base_url, "api_key": gateway_episode.endpoint.api_key},
            cost_tracking="ignore_errors",
        )
        environment = LocalEnvironment(cwd=str(repository))
        agent = DefaultAgent(model, environment, system_template="You work.", instance_template="{{ task }}")
        ended = await asyncio.to_thread(agent.run, "Make it 42.")
    assert ended["exit_status"] == "Submitted" and "+answer = 42" in ended["submission"]
    assert [len(segment.answers) for segment in gateway_episode.recording.segments] == [3]


async def test_episode_temperature_overrides_the_agents(repository: Path, plain: HFTokenizer) -> None:
    temperatures: list[float] = []

    class Noting(Script):
        async def generate(self, input_ids, **sampling):  # type: ignore[no-untyped-def]
            temperatures.append(sampling["temperature"])
            return await super().generate(input_ids, **sampling)

    agent = MiniSweAgent.of(PROTOCOLS[TEXT])
    agent.config["model"]["model_kwargs"]["temperature"] = 0.0
    spec = agent_spec(step_limit=1, protocol=TEXT)
    async with Gateway(Noting(plain, [block("ls")]), plain) as gateway:
        episodes = MiniSweAgentEpisodes(gateway, agent, spec)
        request = EpisodeRequest(TASK, group="g", index=0, temperature=0.7, workdir=str(repository))
        await episodes.run_episode(request, Shell(repository))
    assert temperatures == [0.7]


@pytest.mark.parametrize("config", ["agent: {}", "[1]", "a: b: c", "agent: {}\nmodel: 1"])
def test_configuration_that_is_none_is_refused(config: str) -> None:
    with pytest.raises(PromptError, match="mini-swe-agent"):
        MiniSweAgent.of(PROTOCOLS[TEXT], config)


async def test_command_line_opens_a_shell(tmp_path: Path) -> None:
    arguments = ["eval", "run", "tasks", "--output", "out", "--engine", "http://127.0.0.1:9", "--step-limit", "7"]
    folder = make_tokenizer(tmp_path, TOOL_TEMPLATE)
    options = parse([*arguments, "--tokenizer", str(folder), "--agent", "mini-swe-agent"])
    async with chosen_agent(options, None) as agent:
        assert isinstance(agent, MiniSweAgentEpisodes)
        assert (agent.spec.protocol, agent.spec.step_limit, agent.agent.tools) == (TOOLS, 7, True)
