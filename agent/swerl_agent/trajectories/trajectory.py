"""A trajectory as turns: what the model said, what ran, what it saw, and where its context was cut.

Guarantees: any JSON gives a list of turns; a turn is an answer of the model with everything up to the next one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .fields import integer, listed, mapping, number, text

PartKind = Literal["text", "thought", "command", "code"]
FENCES = frozenset({"bash", "sh", "mswea_bash_command"})
_PARTS = re.compile(
    r"<think>(?P<thought>.*?)(?:</think>|\Z)|```(?P<language>[\w-]*)[^\S\n]*\n(?P<code>.*?)\n?```", re.DOTALL
)


@dataclass(frozen=True)
class Part:
    """A piece of an answer."""

    kind: PartKind
    text: str


@dataclass(frozen=True)
class Command:
    """The record of a command that ran."""

    number: int  # among the commands of the episode, from 0: findings of the audit name it
    action: str
    exit_code: int | None
    seconds: float | None
    output_bytes: int | None
    hidden_bytes: int  # of the output, that the model did not see
    timed_out: bool
    started: float | None = None  # seconds since 1970
    output: str = ""  # its ends, as the record keeps them


@dataclass(frozen=True)
class Cut:
    """Before this turn the context was cut."""

    sequence: int  # that begins here, from 1
    omitted: int | None  # turns that the model no longer saw, where known


@dataclass
class Turn:
    """One answer and what followed."""

    number: int  # from 0, as segments and scores count it
    message: int  # its place in the file
    content: str
    parts: list[Part]
    commands: list[Command] = field(default_factory=list)
    observations: list[tuple[int, str, str]] = field(default_factory=list)  # place in the file, role, content
    score: Mapping[str, Any] | None = None
    findings: list[Mapping[str, Any]] = field(default_factory=list)
    cut: Cut | None = None
    tokens: tuple[int, int, int] | None = None  # segment, first token, end

    def results(self) -> list[tuple[Command | None, str, str]]:
        """What followed the answer: command, role and content. A message about no single command has None.

        Where no message is kept, as of the command that submits, the content is what the record keeps of the output.
        """
        if len(self.observations) == len(self.commands):
            pairs = zip(self.commands, self.observations, strict=True)
            return [(command, role, content) for command, (_, role, content) in pairs]
        if not self.observations:
            return [(command, "tool", command.output) for command in self.commands if command.output]
        return [(None, role, content) for _, role, content in self.observations]


@dataclass(frozen=True)
class Trajectory:
    """The content of a traj.json."""

    info: Mapping[str, Any]
    opening: Sequence[tuple[int, str, str]]  # messages before the first answer: place, role, content
    turns: Sequence[Turn]
    segments: Sequence[Mapping[str, Any]]

    def message(self, place: int) -> str | None:
        """The content of a message by its place in the file."""
        found = [(p, content) for p, _, content in self.opening]
        for turn in self.turns:
            found.append((turn.message, turn.content))
            found += [(p, content) for p, _, content in turn.observations]
        return dict(found).get(place)


def read_trajectory(content: Mapping[str, Any]) -> Trajectory:
    """The trajectory in the content of a traj.json."""
    info = mapping(content.get("info"))
    opening, turns = _turns(listed(content.get("messages")))
    segments = [mapping(each) for each in listed(content.get("segments"))]
    by_number = {turn.number: turn for turn in turns}
    owners = dict[int, Turn]()
    for number_, record in enumerate(listed(content.get("step_debug"))):
        command = _command(number_, mapping(record))
        owner = by_number.get(integer(mapping(record).get("step_idx")) or 0)
        if owner:
            owner.commands.append(command)
            owners[number_] = owner
    for finding in map(mapping, listed(info.get("audit"))):
        if owner := owners.get(integer(finding.get("step")) or 0):
            owner.findings.append(finding)
    for score in map(mapping, listed(info.get("step_scores"))):
        if owner := by_number.get(integer(score.get("step")) or 0):
            owner.score = score
    _mark_segments(segments, by_number, info)
    return Trajectory(info, opening, turns, segments)


def _turns(messages: Sequence[Any]) -> tuple[list[tuple[int, str, str]], list[Turn]]:
    opening: list[tuple[int, str, str]] = []
    turns: list[Turn] = []
    for place, message in enumerate(map(mapping, messages)):
        role, content = text(message.get("role")) or "?", content_text(message)
        if role == "assistant":
            turns.append(Turn(len(turns), place, content, split_answer(content)))
        elif turns:
            turns[-1].observations.append((place, role, content))
        else:
            opening.append((place, role, content))
    return opening, turns


def content_text(message: Mapping[str, Any]) -> str:
    """The text of a message: a text, or the texts of its blocks; tool calls as JSON."""
    calls = message.get("tool_calls")
    return "\n".join(filter(None, [block_text(message.get("content")), text(calls) if calls else ""]))


def block_text(content: Any) -> str:
    """A content that is a text, or a list of blocks with texts."""
    if isinstance(content, list):
        content = "\n".join(text(mapping(block).get("text") or block) for block in content)
    return text(content)


def split_answer(content: str) -> list[Part]:
    """Thoughts, commands and the text between them."""
    parts, end = list[Part](), 0
    for found in _PARTS.finditer(content):
        parts.append(Part("text", content[end : found.start()].strip()))
        if found["thought"] is not None:
            parts.append(Part("thought", found["thought"].strip()))
        else:
            parts.append(Part("command" if found["language"] in FENCES else "code", found["code"]))
        end = found.end()
    parts.append(Part("text", content[end:].strip()))
    return [part for part in parts if part.text]


def _command(place: int, record: Mapping[str, Any]) -> Command:
    start, end = number(record.get("start_ts")), number(record.get("end_ts"))
    return Command(
        place,
        text(record.get("action") or record.get("command")),
        integer(record.get("returncode")),
        end - start if start is not None and end is not None else number(record.get("seconds")),
        integer(record.get("output_len")),
        integer(record.get("output_hidden")) or 0,
        bool(record.get("timed_out")),
        start,
        _kept_output(record),
    )


def _kept_output(record: Mapping[str, Any]) -> str:
    """The ends of a command's output, which overlap where it is short."""
    head, tail = text(record.get("output_head")), text(record.get("output_tail"))
    length = integer(record.get("output_len")) or len(head)
    missing = length - len(head) - len(tail)
    if missing > 0:
        return f"{head}\n[{missing} characters are not kept]\n{tail}"
    return head + tail[max(0, len(tail) - (length - len(head))) :]


def _mark_segments(segments: Sequence[Mapping[str, Any]], turns: Mapping[int, Turn], info: Mapping[str, Any]) -> None:
    """Where each turn's tokens are, and which turns begin a segment after a cut."""
    for sequence, segment in enumerate(segments):
        answers = [tuple(map(integer, listed(each)[:3])) for each in listed(segment.get("answers"))]
        spans = [each for each in answers if len(each) == 3 and None not in each]
        for place, (step, first, end) in enumerate(spans):
            turn = turns.get(step or 0)
            if turn is None:
                continue
            turn.tokens = sequence, first or 0, end or 0
            if sequence and not place:
                last = sequence == len(segments) - 1
                turn.cut = Cut(sequence + 1, integer(info.get("omitted_turns")) if last else None)
