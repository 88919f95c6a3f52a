"""The messages that show a step to the judge. Pure.

Guarantees: text of the issue, the agent and its commands stands in a fence that none of it can close. Equal steps have
equal messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml
from swerl_api import JudgeView

from swerl_agent.episode.rendering import render


@dataclass(frozen=True)
class JudgedCommand:
    """A command and its result; `number` is the step it belongs to."""

    number: int
    command: str
    returncode: int
    output: str


def judge_messages(
    problem: str,
    answer: str,
    commands: Sequence[Mapping[str, Any]],
    history: Sequence[Mapping[str, Any]],
    view: JudgeView,
) -> list[dict[str, str]]:
    """System and user message about the step with the records `commands`; `history`: the records before it."""
    recent = [record for record in history if record["step_idx"] in _last_steps(history, view.history_steps)]
    shown = [_command(record, view.output_chars) for record in commands]
    before = [_command(record, view.history_output_chars) for record in recent]
    texts = [problem, answer, *(text for each in (*before, *shown) for text in (each.command, each.output))]
    variables = {
        "problem": _cut(problem, view.problem_chars),
        "answer": answer,
        "number": commands[-1]["step_idx"] + 1,
        "commands": shown,
        "history": before,
        "word": fence_word(texts),
    }
    return [{"role": role, "content": render(_template(role), **variables).strip()} for role in ("system", "user")]


def fence_word(texts: Sequence[str]) -> str:
    """A word that is in none of `texts`: their hash, so that no text can name it and equal texts have an equal one."""
    digest = hashlib.sha256("\0".join(texts).encode(errors="surrogatepass"))
    while any(digest.hexdigest()[:16] in text for text in texts):
        digest.update(b"again")
    return digest.hexdigest()[:16]


def output_text(record: Mapping[str, Any]) -> str:
    """A command's output from the head and tail of its step record, with a count of the characters between them."""
    head, tail, length = str(record["output_head"]), str(record["output_tail"]), int(record["output_len"])
    gap = length - len(head) - len(tail)
    if length <= len(head):
        return head
    if gap <= 0:  # the ends overlap
        return head + tail[len(tail) - (length - len(head)) :]
    hidden = int(record.get("output_hidden", 0))
    left_out = f"{gap} characters and {hidden} bytes" if hidden else f"{gap} characters"
    return f"{head}\n({left_out} left out)\n{tail}"


def _command(record: Mapping[str, Any], limit: int) -> JudgedCommand:
    return JudgedCommand(
        record["step_idx"] + 1, str(record["action"]), int(record["returncode"]), _cut(output_text(record), limit)
    )


def _last_steps(history: Sequence[Mapping[str, Any]], count: int) -> set[int]:
    steps = sorted({int(record["step_idx"]) for record in history})
    return set(steps[-count:]) if count else set()


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n({len(text) - limit} characters left out)"


@cache
def _template(role: str) -> str:
    prompts = yaml.safe_load(resources.files(__package__).joinpath("prompts.yaml").read_text(encoding="utf-8"))
    return str(prompts[role])
