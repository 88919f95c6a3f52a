"""The protocols of an agent, each against the same small repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from swerl_agent.episode import (
    PROTOCOLS,
    AgentProtocol,
    HFTokenizer,
    Prompts,
    TokenizerError,
    agent_protocol,
    find_actions,
    submission,
)
from swerl_agent.episode.context import omits_turns
from swerl_api import AgentSpec

from tests.scripted_engine import block

from .conftest import PLAIN, SUBMIT, Run, make_tokenizer

MINI_1, FIRST, MINI_2, MINI_2_TOOLS = PROTOCOLS.values()


def fenced(command: str) -> str:
    return f"THOUGHT: next.\n\n```mswea_bash_command\n{command}\n```"


def call(command: str) -> str:
    call_json = json.dumps({"name": "bash", "arguments": {"command": command}})
    return f"<tool_call>\n{call_json}\n</tool_call>"


# What an answer asks for


@pytest.mark.parametrize(
    ("text", "first", "mini"),
    [
        ("```bash\nls\n```\n```bash\npwd\n```", ["ls"], ["ls", "pwd"]),
        ("```sh\nls\n```", [], []),
        ("```bash\nls```", ["ls"], []),
        ("```mswea_bash_command\nls\n```", [], []),
    ],
)
def test_blocks(text: str, first: list[str], mini: list[str]) -> None:
    assert find_actions(text, FIRST) == first
    assert find_actions(text, MINI_1) == mini


@pytest.mark.parametrize(("render", "protocol"), [(block, MINI_1), (call, MINI_2_TOOLS)])
def test_command_in_reasoning_is_no_action(render: Callable[[str], str], protocol: AgentProtocol) -> None:
    reasoning, answer = f"perhaps\n{render('rm -r .')}\n", render("ls")
    assert find_actions(f"<think>\n{reasoning}</think>\n\n{answer}", protocol) == ["ls"]
    assert find_actions(f"{reasoning}</think>\n\n{answer}", protocol) == ["ls"], "the chat template has opened it"
    assert find_actions(f"<think>\n{reasoning}", protocol) == [], "it was cut for its length"
    quoted = "grep -c '<think>x</think>' f"
    assert find_actions(f"I look.\n{render(quoted)}", protocol) == [quoted]


def test_second_version_has_its_own_fence() -> None:
    assert find_actions(fenced("ls") + block("pwd"), MINI_2) == ["ls"]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        (call("ls -la"), ["ls -la"]),
        (call("ls") + call("pwd"), ["ls", "pwd"]),
        (
            "<tool_call>\n<function=bash>\n<parameter=command>\nls\npwd\n</parameter>\n</function>\n</tool_call>",
            ["ls\npwd"],
        ),
        ("<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>", ["ls"]),
        (call("ls") + '<tool_call>{"name": "python", "arguments": {}}</tool_call>', []),
        ('<tool_call>{"name": "bash", "arguments": {"cmd": "ls"}}</tool_call>', []),
        ('<tool_call>{"name": "bash"', []),
        ("<tool_call>{broken</tool_call>", []),
        ('<tool_call>["bash"]</tool_call>', []),
        ("```bash\nls\n```", []),
    ],
)
def test_tool_calls(text: str, commands: list[str]) -> None:
    assert find_actions(text, MINI_2_TOOLS) == commands


def test_only_the_first_versions_accept_the_early_sentinel() -> None:
    assert submission("MINI_SWE_AGENT_FINAL_OUTPUT\nx", MINI_1) == "x"
    assert submission("MINI_SWE_AGENT_FINAL_OUTPUT\nx", MINI_2) is None


# Episodes


def test_with_first_block_more_than_one_block_is_no_error(run: Run) -> None:
    episode, _ = run(block("sed -i s/41/42/ kit.py") + block("rm kit.py"), block(SUBMIT), protocol=FIRST)
    assert (episode.exit_status, episode.format_errors, episode.turns) == ("submitted", 0, 2)
    assert episode.patch is not None
    assert "+answer = 42" in episode.patch


def test_mini_swe_agent_2_error_names_its_fence(run: Run) -> None:
    episode, script = run(block("ls"), fenced("sed -i s/41/42/ kit.py"), fenced(SUBMIT), protocol=MINI_2)
    assert (episode.exit_status, episode.format_errors) == ("submitted", 1)
    assert "```mswea_bash_command\n" in script.read[0]
    assert "```bash" not in script.read[0]


def test_three_answers_without_command_end_a_mini_swe_agent_2_episode(run: Run) -> None:
    episode, _ = run("a", "b", fenced("ls"), "c", "d", "e", fenced(SUBMIT), protocol=MINI_2)
    assert episode.exit_status == "repeated_format_errors"
    assert (episode.turns, episode.format_errors, len(episode.commands)) == (6, 5, 1)


def test_first_version_has_no_limit_on_format_errors(run: Run) -> None:
    episode, _ = run(*["nothing"] * 9, block(SUBMIT), protocol=MINI_1)
    assert (episode.exit_status, episode.format_errors) == ("submitted", 9)


def test_command_that_fails_submits_nothing_in_the_second_version(run: Run) -> None:
    failing = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; false"
    episode, _ = run(fenced(failing), fenced(SUBMIT), protocol=MINI_2)
    assert len(episode.commands) == 2
    episode, _ = run(block(failing), block(SUBMIT), protocol=MINI_1)
    assert len(episode.commands) == 1


def test_patch_in_two_steps(run: Run) -> None:
    write = "sed -i s/41/42/ kit.py && git add -A && git diff --cached > ../patch.txt"
    send = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat ../patch.txt"
    episode, _ = run(fenced(write), fenced(send), protocol=MINI_2)
    assert (episode.patch_source, episode.exit_status) == ("submission", "submitted")


def test_same_command_again_and_again_ends_the_episode(run: Run) -> None:
    episode, _ = run(*[block("ls")] * 2, block("pwd"), *[block("ls")] * 5, protocol=MINI_1, repeat_limit=3)
    assert (episode.exit_status, episode.turns) == ("repeated_command", 6)


def test_answer_cut_for_length_is_marked(run: Run) -> None:
    _, script = run("x" * 400, block(SUBMIT), max_tokens_per_turn=150)
    assert "Your answer was cut because it was too long." in script.read[1]


def test_tool_calls_and_their_results_go_through_the_chat_template(run: Run, tool_tokenizer: HFTokenizer) -> None:
    answers = [call("echo one") + call("echo two"), "no call", call("sed -i s/41/42/ kit.py"), call(SUBMIT)]
    episode, script = run(*answers, protocol=MINI_2_TOOLS, tokenizer=tool_tokenizer)
    assert (episode.exit_status, episode.turns, len(episode.commands)) == ("submitted", 4, 4)
    assert [step["step_idx"] for step in episode.commands] == [0, 0, 2, 3]
    assert '"name": "bash"' in script.read[0]
    results = script.read[1].split("<|im_start|>user\n")[-1]
    assert results.count("<tool_response>") == 2
    assert "one" in results.split("</tool_response>")[0]
    assert "You have 19 turns left." in results
    assert "<tool_response>" not in script.read[2].split("<|im_start|>user\n")[-1]
    assert [message["role"] for message in episode.messages] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert len(episode.segments) == 1


@pytest.mark.parametrize(("template", "message"), [(PLAIN, "shows the tools"), ("{{ 1/0 }}", "does not render")])
def test_tool_calls_need_a_template_that_shows_tools(tmp_path: Path, template: str, message: str) -> None:
    make_tokenizer(tmp_path, template)
    with pytest.raises(TokenizerError, match=message):
        HFTokenizer(tmp_path, tools=MINI_2_TOOLS.tools)


def test_tool_results_need_a_template_that_has_them(tmp_path: Path) -> None:
    refusing = "{% for m in messages if m.role == 'tool' %}{{ raise_exception('only two roles') }}{% endfor %}"
    make_tokenizer(tmp_path, refusing + PLAIN)
    with pytest.raises(TokenizerError, match=r"tool messages.*only two roles"):
        HFTokenizer(tmp_path, tools=MINI_2_TOOLS.tools)


# From a job


def test_job_selects_protocol_and_limits() -> None:
    spec = AgentSpec.model_validate({"protocol": "mini-swe-agent-2", "repeatLimit": 3, "headRatio": 0.5})
    protocol = agent_protocol(spec)
    assert (protocol.fence, protocol.format_error_limit, protocol.repeat_limit) == ("mswea_bash_command", 3, 3)
    assert (spec.head_ratio, omits_turns(spec)) == (0.5, True)
    assert not omits_turns(AgentSpec.model_validate({"contextPolicy": "stop"}))
    unlimited = AgentSpec.model_validate({"protocol": "mini-swe-agent-2", "formatErrorLimit": 0})
    assert agent_protocol(unlimited).format_error_limit == 0


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=list(PROTOCOLS))
def test_every_protocol_has_prompts(protocol: object) -> None:
    assert Prompts.default(protocol).system()  # type: ignore[arg-type]


def test_all_protocols_of_the_api_are_known() -> None:
    for name in AgentSpec.model_json_schema(by_alias=True)["properties"]["protocol"]["enum"]:
        assert agent_protocol(AgentSpec(protocol=name)).name == name


def test_prompt_longer_than_the_window_is_one_clear_error(run: Run) -> None:
    episode, script = run(context_tokens=200, max_tokens_per_turn=100)
    assert (episode.exit_status, script.read) == ("prompt_too_long", [])
    assert episode.error is not None
    assert "raise agent.contextTokens" in episode.error
