"""What the model can copy and how it decides, measured on modules it has never seen.

Guarantee: figures are exact probabilities of the model's own distribution at temperature 1 (teacher forcing over the
right text), not samples; the modules come from a seed that training never uses.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from tiny_model.defects import random_defect
from tiny_model.episodes import SUBMIT, code_block, edit_command, observation, problem_statement, prompt, view_command
from tiny_model.network import TinyQwen3
from tiny_model.scope import Defect

VALIDATION_SEED = 990_001
Encoder = Callable[[str], list[int]]


@dataclass(frozen=True)
class ScoredText:
    field: str  # name of the figure this text counts for; '' for text that is given
    text: str


def reference_episode(defect: Defect, problem_statement: str, shown: str) -> list[ScoredText]:
    """The reference episode in texts whose probabilities are measured."""
    opening, _, _ = edit_command(defect.bad, defect.good, defect.path).partition(defect.bad)
    new, path = f"|{defect.good}|' ", f"{defect.path}\n```<|im_end|>"
    return [
        ScoredText("", prompt(problem_statement)),
        ScoredText("look", code_block(view_command(defect.function, defect.path)) + "<|im_end|>"),
        ScoredText("", observation(0, shown)),
        ScoredText("edits", f"```bash\n{opening}"),
        ScoredText("old", defect.bad),
        ScoredText("new", new),
        ScoredText("path", path),
        ScoredText("", observation(0, "")),
        ScoredText("submit", code_block(SUBMIT) + "<|im_end|>"),
    ]


@torch.no_grad()
def probabilities(model: TinyQwen3, encoder: Encoder, pieces: list[ScoredText]) -> dict[str, float]:
    """Probability of each field's text given everything before it."""
    ids: list[int] = []
    spans: list[tuple[str, int, int]] = []
    for piece in pieces:
        start = len(ids)
        ids += encoder(piece.text)
        if piece.field:
            spans.append((piece.field, start, len(ids)))
    states = model.hidden(torch.tensor([ids]))[0]
    logs = functional.log_softmax(model.logits(states[:-1]), -1)
    token_log_probs = logs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return {field: float(token_log_probs[start - 1 : end - 1].sum().exp()) for field, start, end in spans}


def measure(model: TinyQwen3, encoder: Encoder, *, count: int = 60) -> tuple[dict[str, float], dict[str, float]]:
    """(mean of every field, chance of a resolved episode by kind) over never-seen modules.

    `copy` is the product that must be near 1: look, old, path and submit. The copied part of the replacement lies in
    `new`, together with the choice that pre-training leaves open.
    """
    totals: dict[str, float] = {}
    kinds: dict[str, list[float]] = {}
    for index in range(count):
        rng = random.Random(VALIDATION_SEED + index)
        defect = random_defect(rng)
        found = probabilities(
            model, encoder, reference_episode(defect, problem_statement(defect, rng), defect.source + "\n\n")
        )
        found["copy"] = found["look"] * found["old"] * found["path"] * found["submit"]
        found["resolved"] = found["copy"] * found["edits"] * found["new"]
        kinds.setdefault(defect.kind, []).append(found["new"])
        for field, value in found.items():
            totals[field] = totals.get(field, 0.0) + value / count
    return totals, {kind: sum(values) / len(values) for kind, values in sorted(kinds.items())}
