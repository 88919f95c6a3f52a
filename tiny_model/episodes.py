"""Pre-training episodes: an issue about a generated module, and a noisy demonstration of an agent at work on it.

Guarantees: an episode is encoded segment by segment exactly as the production agent builds its tokens (prompt, sampled
turn, observation delta, sampled turn, …); copied text (path, function, code fragment) is always right, only the
*choice* of the edit is noisy: a demonstration may submit unchanged code or put a wrong replacement.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from jinja2 import Template

from tiny_model.scope import WORDS, Defect

DEMO_JOB = Path(__file__).parent.parent / "swerljob.yaml"


def demo_prompts() -> str:
    """The agent's prompt file of the demo's job."""
    documents = yaml.safe_load_all(DEMO_JOB.read_text(encoding="utf-8"))
    return str(next(document for document in documents if document["kind"] == "ConfigMap")["data"]["prompts.yaml"])


PROMPTS: dict[str, str] = yaml.safe_load(demo_prompts())["agent"]
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
PHRASES = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_text(encoding="utf-8"))
REPLACEMENTS: dict[str, list[str]] = PHRASES["replacements"]


@dataclass(frozen=True)
class Noise:
    """How often a demonstration submits without an edit, and how often an edit is the right one."""

    unchanged: float = 0.25
    right: float = 0.42


@dataclass(frozen=True)
class Segment:
    text: str
    sampled: bool  # written by the agent, so trained on


def problem_statement(defect: Defect, rng: random.Random) -> str:
    """A problem statement that names the function and the module and describes the symptom of the kind."""
    place = rng.choice(PHRASES["places"]).format(function=defect.function, path=defect.path)
    example = ""
    if rng.random() < 0.25:
        arguments = ", ".join(_argument(rng) for _ in range(rng.choice((1, 2))))
        example = f" For example `{defect.function}({arguments})` is wrong."
    opener, symptom = rng.choice(PHRASES["openers"]), rng.choice(PHRASES["symptoms"][defect.kind])
    return f"{opener}{place} {symptom}{example}{rng.choice(PHRASES['closers'])}"


def _argument(rng: random.Random) -> str:
    return str(rng.choice((rng.randrange(10), f'"{rng.choice(WORDS)}"')))


def wrong_fragment(defect: Defect, rng: random.Random) -> str:
    """A replacement of the same shape as the right one that does not repair the defect."""
    if defect.kind == "offset":
        base = defect.good
        options = [f"{base} + 1", f"{base} - 1", f"{base} + 2", f"{base} - 2", f"{base} * 2"]
    elif defect.kind == "negation":
        subject = defect.bad.removeprefix("if ").removeprefix("not ")
        options = [f"if {subject} is None", f"if len({subject})", f"if bool({subject})"]
    else:
        before, old, new, after = _difference(defect.bad, defect.good, REPLACEMENTS[defect.kind])
        options = [f"{before}{token}{after}" for token in REPLACEMENTS[defect.kind] if token not in (old, new)]
        options = options[:3]
    return rng.choice([o for o in options if o not in (defect.bad, defect.good)])


def _difference(bad: str, good: str, tokens: list[str]) -> tuple[str, str, str, str]:
    """(text before, bad token, good token, text after) of the one token in which the fragments differ."""
    pads = ("", "") if tokens[0].isalpha() and tokens[0] not in ("and",) else (" ", " ")
    for old in tokens:
        for new in tokens:
            left, right = f"{pads[0]}{old}{pads[1]}", f"{pads[0]}{new}{pads[1]}"
            at = bad.find(left)
            if old != new and at >= 0 and bad[:at] + right + bad[at + len(left) :] == good:
                return bad[:at] + pads[0], old, new, pads[1] + bad[at + len(left) :]
    raise ValueError(f"no single token of {tokens} turns {bad!r} into {good!r}")


def code_block(command: str) -> str:
    return f"```bash\n{command}\n```"


def view_command(function: str, path: str) -> str:
    return f"sed -n '/def {function}/,/^$/p' {path}"


def edit_command(old: str, new: str, path: str) -> str:
    return f"sed -i 's|{old}|{new}|' {path}"


def prompt(problem_statement: str) -> str:
    """The rendered chat up to the first assistant turn."""
    user = Template(PROMPTS["instance_template"]).render(task=problem_statement)
    system = PROMPTS["system_template"]
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


def observation(returncode: int, output: str) -> str:
    """The delta that follows a sampled <|im_end|>."""
    text = f"<returncode>{returncode}</returncode>\n<output>\n{output}</output>"
    return f"\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def demonstration(defect: Defect, rng: random.Random, noise: Noise) -> list[Segment]:
    """An episode of three turns (two when it submits unchanged code)."""
    shown = defect.source + ("\n\n" if rng.random() < 0.7 else "\n")
    segments = [
        Segment(prompt(problem_statement(defect, rng)), False),
        Segment(code_block(view_command(defect.function, defect.path)) + "<|im_end|>", True),
        Segment(observation(0, shown), False),
    ]
    if rng.random() >= noise.unchanged:
        new = defect.good if rng.random() < noise.right else wrong_fragment(defect, rng)
        segments.append(Segment(code_block(edit_command(defect.bad, new, defect.path)) + "<|im_end|>", True))
        segments.append(Segment(observation(0, ""), False))
    segments.append(Segment(code_block(SUBMIT) + "<|im_end|>", True))
    return segments


def encode(segments: list[Segment], encoder: Callable[[str], list[int]]) -> tuple[list[int], list[bool]]:
    """Token ids of an episode and which of them the agent sampled; every segment is encoded by itself."""
    ids: list[int] = []
    sampled: list[bool] = []
    for segment in segments:
        piece = encoder(segment.text)
        ids += piece
        sampled += [segment.sampled] * len(piece)
    return ids, sampled
