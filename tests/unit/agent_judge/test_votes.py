"""What a judge's answer says, and what it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.judge import aggregate, parse_vote
from swerl_agent.judge.prompt import judge_messages, output_text
from swerl_api import JudgeView


@pytest.mark.parametrize(
    ("text", "vote"),
    [
        (r"\boxed{+1}", 1),
        (r"\boxed{1.0}", 1),
        (r"\boxed{ 1 }", 1),
        (r"\boxed{-1}", -1),
        (r"\boxed{0}", None),
        (r"\boxed{2}", None),
        (r"\boxed{\text{+1}}", None),
        (r"\boxed{yes}", None),
        ("1", None),
        ("", None),
        (r"At first \boxed{-1} seems right, but all holds: \boxed{1}", 1),
        (r"\boxed{1}, I thought. Yet it fails. \boxed{-1}", -1),
        (r"\boxed{1} or rather \boxed{maybe}", None),
    ],
)
def test_the_last_box_is_the_vote(text: str, vote: int | None) -> None:
    assert parse_vote(text) == vote


@pytest.mark.parametrize(
    ("votes", "mean", "majority"),
    [
        ([1, None, -1], 0.0, 0.0),
        ([1, 1, -1], pytest.approx(1 / 3), 1.0),
        ([-1, -1, 1], pytest.approx(-1 / 3), -1.0),
        ([None, 1], 1.0, 1.0),
        ([None, None], None, None),
        ([], None, None),
    ],
)
def test_votes_together(votes: list[int | None], mean: float | None, majority: float | None) -> None:
    assert aggregate(votes) == mean
    assert aggregate(votes, "majority") == majority


def record(step: int, output: str = "out", command: str = "ls") -> dict[str, Any]:
    ends = {"output_len": len(output), "output_head": output[:2_000], "output_tail": output[-2_000:]}
    return {"step_idx": step, "action": command, "returncode": 0, **ends}


@pytest.mark.parametrize("length", [0, 1_999, 2_000, 2_001, 3_999, 4_000])
def test_an_output_that_its_ends_cover_is_whole(length: int) -> None:
    text = "".join(chr(97 + i % 26) for i in range(length))
    assert output_text(record(0, text)) == text


def test_what_no_end_covers_is_counted() -> None:
    assert output_text(record(0, "a" * 5_000)) == f"{'a' * 2_000}\n(1000 characters left out)\n{'a' * 2_000}"


def test_the_judge_sees_the_last_steps_only() -> None:
    history = [record(step, f"result {step}") for step in range(12)]
    _, user = judge_messages("It breaks.", "THOUGHT", [record(12, "now")], history, JudgeView(history_steps=8))
    assert "## The 8 steps before" in user["content"]
    assert "Step 5: $ ls" in user["content"]
    assert "result 3" not in user["content"]
    assert "step, number 13" in user["content"]


def test_long_texts_are_cut() -> None:
    commands = [record(1, "n" * 5_000)]
    _, user = judge_messages("p" * 9_000, "a", commands, [record(0, "h" * 3_000)], JudgeView())
    assert "p" * 8_000 in user["content"]
    assert "p" * 8_001 not in user["content"]
    assert "h" * 1_001 not in user["content"]
    assert "n" * 4_001 not in user["content"]


def test_braces_of_the_agent_are_text() -> None:
    system, user = judge_messages("{{ x }}", "{% if %}", [record(0)], [], JudgeView())
    assert "{{ x }}" in user["content"]
    assert "{% if %}" in user["content"]
    assert system["role"] == "system"
