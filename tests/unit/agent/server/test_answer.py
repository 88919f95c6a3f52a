"""The answer's response object: what a trainer learns from is what the engine read and sampled."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import swerl_agent
from swerl_agent.episode import PROTOCOLS, BuiltinAgent, Episode, EpisodeRequest, GradedEpisode, HFTokenizer, Prompts
from swerl_agent.server import RequestDefaults, RunRequest, read_request
from swerl_agent.server.answer import EXIT_STATUSES, answer, output_items, response
from swerl_agent.server.runner import GOLD_PATCH

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script, block
from tests.unit.agent.episode.conftest import SUBMIT, TOOLS, CannedSession, make_tokenizer

from .conftest import FAILED, SOLVED, body, episode


@pytest.fixture(scope="session")
def tool_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    folder = make_tokenizer(tmp_path_factory.mktemp("tools"), TOOLS)
    return HFTokenizer(folder, tools=PROTOCOLS["mini-swe-agent-2-tools"].tools)


@pytest.fixture
def request_() -> RunRequest:
    return read_request(json.dumps(body()).encode(), RequestDefaults())


def run_scripted(
    tokenizer: HFTokenizer, request: RunRequest, *answers: str, protocol: str = "mini-swe-agent-1", **limits: Any
) -> tuple[Episode, Script]:
    """The episode in which the model gives these answers."""
    script = Script(tokenizer, answers)
    spec = agent_spec(**{"max_tokens_per_turn": 1000, **limits}, protocol=protocol)
    agent = BuiltinAgent(script, tokenizer, Prompts.default(PROTOCOLS[protocol]), spec)
    episode = EpisodeRequest(request.task, group="g", index=0, temperature=1.0)
    return asyncio.run(agent.run_episode(episode, CannedSession())), script


def called(command: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'bash', 'arguments': {'command': command}})}\n</tool_call>"


def test_every_answer_has_its_tokens_and_log_probs() -> None:
    items = list(output_items(episode()))
    assert [item["role"] for item in items] == ["assistant", "user", "assistant"]
    assert [item["content"][0]["text"] for item in items] == ["one", "seen", "two"]
    assert (items[0]["prompt_token_ids"], items[0]["generation_token_ids"]) == ([1, 2], [3])
    assert (items[2]["prompt_token_ids"], items[2]["generation_token_ids"]) == ([1, 2, 3, 4], [5, 6])
    assert items[2]["generation_log_probs"] == [-0.25, -1.5]
    assert "prompt_token_ids" not in items[1]


def test_each_prompt_extends_all_earlier_tokens(tool_tokenizer: HFTokenizer, request_: RunRequest) -> None:
    answered, script = run_scripted(tool_tokenizer, request_, block("ls"), "no command", block(SUBMIT))
    sampled = [item for item in output_items(answered) if "generation_token_ids" in item]
    assert len(sampled) == 3
    assert [tool_tokenizer.decode(item["prompt_token_ids"]) for item in sampled] == script.read
    for before, after in pairwise(sampled):
        token_ids = before["prompt_token_ids"] + before["generation_token_ids"]
        assert after["prompt_token_ids"][: len(token_ids)] == token_ids
    assert all(len(item["generation_token_ids"]) == len(item["generation_log_probs"]) for item in sampled)


def test_answer_shows_the_context_after_truncation(tool_tokenizer: HFTokenizer, request_: RunRequest) -> None:
    answers = [block(f"echo {'x' * 60} {number}") for number in range(8)]
    first, _ = run_scripted(tool_tokenizer, request_, block("true"), step_limit=1)
    context_tokens = first.segments[0].prompt_length + 500
    answered, script = run_scripted(
        tool_tokenizer, request_, *answers, context_tokens=context_tokens + 200, max_tokens_per_turn=200, step_limit=8
    )
    sampled = [item for item in output_items(answered) if "generation_token_ids" in item]
    assert len(answered.segments) > 1, "the context was cut"
    assert [tool_tokenizer.decode(item["prompt_token_ids"]) for item in sampled] == script.read


def test_tool_calls_precede_their_outputs(tool_tokenizer: HFTokenizer, request_: RunRequest) -> None:
    answered, _ = run_scripted(
        tool_tokenizer, request_, called("ls") + called("pwd"), called(SUBMIT), protocol="mini-swe-agent-2-tools"
    )
    kinds = [item["type"] for item in output_items(answered)]
    assert kinds == ["message", *["function_call", "function_call_output"] * 2, "message"]
    calls = [item for item in output_items(answered) if item["type"] == "function_call"]
    assert [json.loads(call["arguments"])["command"] for call in calls] == ["ls", "pwd"]
    outputs = [item for item in output_items(answered) if item["type"] == "function_call_output"]
    assert [item["call_id"] for item in outputs] == [call["call_id"] for call in calls]
    assert "ran pwd" in outputs[1]["output"]


def test_response_is_an_object_of_the_responses_api(request_: RunRequest) -> None:
    answered = response(episode(), request_, "m")
    required = {
        "id", "created_at", "error", "incomplete_details", "instructions", "metadata", "model", "object", "output",
        "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p",
    }  # fmt: skip
    assert required <= answered.keys()
    assert (answered["object"], answered["model"], answered["temperature"]) == ("response", "m", 0.8)
    assert (answered["usage"]["input_tokens"], answered["usage"]["output_tokens"]) == (6, 3)


def test_answer_has_the_keys_that_verifiers_read(request_: RunRequest) -> None:
    parameters = {"input": [], "temperature": 1.0, "metadata": {"golden_patch": "p"}}
    solved = answer(replace(request_, create_params=parameters), SOLVED, "m")
    report = solved["metadata"]["eval_report"]["getmoto__moto-5876"]
    assert report["resolved"] and report["tests_status"]["FAIL_TO_PASS"]["success"] == ["t"]
    assert [message["content"] for message in solved["responses_create_params"]["input"]] == ["s", "u"]
    assert set(solved["responses_create_params"]) == {"input", "temperature"}, "the row in its metadata stays with us"
    assert solved["messages"] == SOLVED.episode.messages
    assert answer(request_, FAILED, "m")["metadata"]["eval_report"]["getmoto__moto-5876"]["resolved"] is False
    assert answer(request_, GradedEpisode(episode(patch=None)), "m")["metadata"] == {"eval_report": {}}


def test_reference_fix_is_answered_without_a_conversation(request_: RunRequest) -> None:
    golden = Episode("getmoto__moto-5876", "server", 0, patch="p", exit_status="golden")
    answered = answer(request_, GradedEpisode(golden, SOLVED.verdict), "golden")
    assert (answered["reward"], answered["messages"], answered["response"]["output"]) == (1, [], [])
    assert (answered["info"]["exit_status"], answered["info"]["status"]) == ("Submitted", "golden")


def test_every_answered_exit_status_is_one_the_format_defines() -> None:
    answered = exit_statuses() - {"prompt_failed", "infrastructure_error", "cancelled", "error"}
    assert set(EXIT_STATUSES) == answered | {GOLD_PATCH}
    assert set(EXIT_STATUSES.values()) <= {"Submitted", "LimitsExceeded", "RolloutTruncated", "CollapseContinued"}


def test_every_end_in_the_code_is_one_of_the_documented_ones() -> None:
    code = "".join(path.read_text() for path in sorted(Path(swerl_agent.__file__).parent.rglob("*.py")))
    ends = set(re.findall(r'(?:\bEpisodeEnded\(|\bexit_status = |\brefused = )"(\w+)"', code))
    assert {"submitted", "max_steps", "error"} | ends <= exit_statuses()
    assert len(ends) > 5


def exit_statuses() -> set[str]:
    """What an Episode says that its `exit_status` may be."""
    documented = re.search(r"`exit_status`: (.+?)\.\n", Episode.__doc__ or "", re.DOTALL)
    assert documented
    return set(re.split(r"\s*\|\s*", documented[1]))
