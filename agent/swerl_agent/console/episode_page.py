"""What the pages of one episode, of its tokens and of its prompt's rollouts show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from swerl_agent.trajectories.fields import integer, listed, mapping, number, text
from swerl_agent.trajectories.stored import load, patch_of
from swerl_agent.trajectories.trajectory import Trajectory, Turn

from .blocks import Block, Budget
from .diff import Diff, read_diff
from .rendering import address

TURNS = 25  # of one page
DIFF_BYTES = 110_000
TOKENS = 600  # of one page
COMPARED_COMMANDS = 60  # of one rollout, side by side


def episode_values(folder: Path, path: str, first: int) -> dict[str, Any]:
    """The turns from `first` on, the patch and the verdict of the episode at `path`."""
    return trajectory_values(load(folder), patch_of(folder), path, first)


def trajectory_values(trajectory: Trajectory, patch: str, path: str, first: int) -> dict[str, Any]:
    """The same of a trajectory that was read."""
    budget, last = Budget(), len(trajectory.turns)
    first = max(0, min(first, last - 1)) // TURNS * TURNS if last else 0
    shown = trajectory.turns[first : first + TURNS]

    def cut(content: str, most: int, place: int | None = None) -> Block:
        return budget.cut(content, most, address("text", path=path, message=place) if place is not None else "")

    opening = trajectory.opening[:4] if not first else []
    return {
        "info": trajectory.info,
        "verdict": verdict_values(trajectory.info, budget),
        "diff": read_diff(patch, budget, DIFF_BYTES),
        "opening": [(role, cut(content, 9_000, place)) for place, role, content in opening],
        "turns": [_turn(turn, cut) for turn in shown],
        "first": first,
        "following": first + TURNS,
        "last": last,
        "pages": [(start, min(start + TURNS, last)) for start in range(0, last, TURNS)] if last > TURNS else [],
        "findings": findings_values(trajectory, path, budget),
        "segments": [_segment(segment) for segment in trajectory.segments],
        "written": bool(trajectory.turns or trajectory.opening),
        "details": _details(trajectory.info, budget),
    }


def _turn(turn: Turn, cut: Callable[..., Block]) -> dict[str, Any]:
    most = max(1_200, 6_000 // max(1, len(turn.parts)))
    answer_text = "\n".join(part.text for part in turn.parts)
    unsaid = [command for command in turn.commands[:20] if command.action not in answer_text]
    return {
        "number": turn.number,
        "parts": [(part.kind, cut(part.text, most, turn.message)) for part in turn.parts[:12]],
        "commands": turn.commands[:20],
        "unsaid": [cut(command.action, 1_500) for command in unsaid],
        "observations": [(role, cut(content, 3_600, place)) for place, role, content in turn.observations[:8]],
        "score": turn.score,
        "votes": listed(turn.score.get("votes"))[:32] if turn.score else [],
        "findings": [cut(text(each.get("rule")), 200) for each in turn.findings[:8]],
        "cut": turn.cut,
        "tokens": turn.tokens,
    }


def verdict_values(info: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """The verdict as its panel shows it."""
    verdict = mapping(info.get("verdict"))
    report = mapping(verdict.get("report"))
    tests = mapping(report.get("tests_status"))
    return {
        "status": text(verdict.get("status")),
        "detail": budget.cut(text(verdict.get("detail")), 4_000),
        "duration": number(verdict.get("duration")),
        "cached": bool(verdict.get("cached")),
        "contrast": text(report.get("contrast")),
        "contrast_reason": budget.cut(text(report.get("contrast_reason")), 2_000),
        "tests": [(kind, _count(tests, kind, "success"), _count(tests, kind, "failure")) for kind in list(tests)[:8]],
        "report": [
            (name, budget.cut(text(value), 1_000))
            for name, value in list(report.items())[:40]
            if name not in ("tests_status", "contrast", "contrast_reason")
        ],
    }


def _count(tests: Mapping[str, Any], kind: str, outcome: str) -> int:
    found = mapping(tests.get(kind)).get(outcome)
    return len(found) if isinstance(found, list) else integer(found) or 0


def findings_values(trajectory: Trajectory, path: str, budget: Budget) -> list[dict[str, Any]]:
    """The audit's findings, each with the turn that it is about."""
    turn_of = {command.number: turn.number for turn in trajectory.turns for command in turn.commands}
    return [
        {
            "rule": budget.cut(text(finding.get("rule")), 100),
            "what": budget.cut(text(finding.get("what")), 300),
            "excerpt": budget.cut(text(finding.get("excerpt")), 600),
            "turn": turn_of.get(integer(finding.get("step")) or 0),
        }
        for finding in map(mapping, listed(trajectory.info.get("audit"))[:50])
    ]


def _segment(segment: Mapping[str, Any]) -> dict[str, Any]:
    mask, versions = listed(segment.get("loss_mask")), listed(segment.get("weight_versions"))
    return {
        "tokens": len(listed(segment.get("tokens"))),
        "trained": sum(1 for each in mask if each == 1),
        "prompt": integer(segment.get("prompt_length")) or 0,
        "versions": sorted({text(listed(each)[0])[:60] for each in versions if listed(each)})[:8],
    }


SHOWN_ELSEWHERE = frozenset({"verdict", "eval_result", "audit", "step_scores", "instance_id", "group_index"})


def _details(info: Mapping[str, Any], budget: Budget) -> list[tuple[str, Block]]:
    """The other fields of meta.json."""
    flat = list[tuple[str, Any]]()
    for name, value in info.items():
        if name not in SHOWN_ELSEWHERE:
            inner = [(f"{name}.{key}", each) for key, each in mapping(value).items()]
            flat += inner or [(name, value)]
    return [(name, budget.cut(text(value), 800)) for name, value in flat[:80] if value not in (None, "", [], {})]


def token_values(folder: Path, sequence: int, first: int, decode: Callable[[int], str] | None) -> dict[str, Any] | None:
    """The tokens of one segment from `first` on; None where the episode has no such segment."""
    segments = load(folder).segments
    if not 0 <= sequence < len(segments):
        return None
    segment = segments[sequence]
    tokens, mask, logprobs = (listed(segment.get(name)) for name in ("tokens", "loss_mask", "logprobs"))
    first = max(0, min(first, len(tokens) - 1)) // TOKENS * TOKENS if tokens else 0
    rows = []
    for place in range(first, min(first + TOKENS, len(tokens))):
        token, logprob = integer(tokens[place]), number(logprobs[place]) if place < len(logprobs) else None
        trained = place < len(mask) and mask[place] == 1
        decoded = decode(token) if decode and token is not None else ""
        shown = decoded or text(tokens[place])[:20]
        rows.append((place, shown, token, logprob if trained else None, trained, _level(logprob)))
    pages = [(start, min(start + TOKENS, len(tokens))) for start in range(0, len(tokens), TOKENS)]
    return {"rows": rows, "first": first, "pages": pages, "sequence": sequence, "sequences": len(segments)}


def _level(logprob: float | None) -> int:
    """How likely a token was: 0 certain to 4 unlikely."""
    return 0 if logprob is None or logprob >= 0 else min(4, math.floor(-logprob / 0.75))


def side_by_side(root: Path, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The rollouts of one prompt, each in an equal share of the page."""
    share = Budget().left // max(1, len(rows))
    found = []
    for row in rows:
        folder, budget = root / row["path"], Budget(share)
        trajectory = load(folder)
        diff: Diff = read_diff(patch_of(folder), Budget(share // 2), share // 2)
        commands = [(turn, command) for turn in trajectory.turns for command in turn.commands]
        found.append(
            {
                "row": row,
                "diff": diff,
                "commands": [
                    (turn.number, command, budget.cut(command.action, 300))
                    for turn, command in commands[:COMPARED_COMMANDS]
                    if budget.left > share // 2
                ],
                "total": len(commands),
            }
        )
    return found
