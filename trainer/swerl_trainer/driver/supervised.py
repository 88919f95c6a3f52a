"""Supervised steps on demonstrations: the warm start of a job, or the whole of it (algorithm.name sft).

Guarantees: a demonstration is encoded exactly as an episode's conversation is, with thinking and tool calls as the
tokens that a model samples. The demonstrations of a step are a function of the step alone, so a resumed run continues
in the same order. Demonstrations longer than the context are refused by name, not cut.

Each line is one JSON object of one of two forms:

* `{"messages": [{"role", "content"}, ...]}`: the first two are system and user. Then come answers, which are trained,
  each followed by a message of the user or of tools.
* `{"tokens": [...], "loss_mask": [...]}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from swerl_agent.episode import HFTokenizer, answer_tokens
from swerl_trainer.algorithm.training_sample import TrainingSample
from swerl_trainer.job import JobError
from swerl_trainer.rollout.cursor import TaskOrder

PROMPT_MESSAGES = 2  # messages before the first answer
ROLE_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
CONVERSATION = re.compile("su(a(u|t+|$))+")


def read_demonstrations(path: Path, tokenizer: HFTokenizer, *, context_tokens: int) -> list[TrainingSample]:
    """The demonstrations at `path`. Raises JobError naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # other line ends may stand inside a text
    except OSError as error:
        raise JobError(f"demonstrations {path} cannot be read: {error}; check algorithm.sft.data") from error
    samples = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            samples.append(_sample(_parse(line, f"{path}:{number}"), f"{path}:{number}", tokenizer, context_tokens))
    if not samples:
        raise JobError(f"demonstrations {path}: the file is empty")
    return samples


def demonstrations_of(
    step: int, samples: Sequence[TrainingSample], *, batch_size: int, seed: int
) -> list[TrainingSample]:
    """The demonstrations of supervised step `step` (from 0)."""
    order = TaskOrder(len(samples), shuffle=True, seed=seed)
    return [samples[order.task(step * batch_size + i)] for i in range(batch_size)]


def encode_messages(messages: Sequence[Mapping[str, str]], tokenizer: HFTokenizer) -> tuple[list[int], list[int]]:
    """Tokens and loss mask of a conversation; answers and the token that ends them are trained."""
    tokens = tokenizer.prompt(messages[:PROMPT_MESSAGES])
    mask = [0] * len(tokens)
    turns = [(role, [m["content"] for m in group]) for role, group in groupby(messages[PROMPT_MESSAGES:], _role)]
    for (role, contents), (following, _) in zip(turns, [*turns[1:], ("user", [])], strict=True):
        trained = role == "assistant"
        piece = answer_tokens(tokenizer, contents[0], following) if trained else tokenizer.delta(*contents, role=role)
        tokens += piece
        mask += [int(trained)] * len(piece)
    return tokens, mask


def _role(message: Mapping[str, str]) -> str:
    return message["role"]


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise JobError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise JobError(f"{where}: not an object")
    return row


def _sample(row: Mapping[str, Any], where: str, tokenizer: HFTokenizer, context_tokens: int) -> TrainingSample:
    if "messages" in row:
        _check_roles(row["messages"], where)
        tokens, mask = encode_messages(row["messages"], tokenizer)
    elif "tokens" in row and "loss_mask" in row:
        tokens, mask = list(row["tokens"]), list(row["loss_mask"])
    else:
        raise JobError(f"{where}: needs `messages`, or `tokens` and `loss_mask`")
    if len(tokens) != len(mask):
        raise JobError(f"{where}: {len(tokens)} tokens but {len(mask)} mask entries")
    if len(tokens) > context_tokens:
        raise JobError(f"{where}: {len(tokens)} tokens are more than agent.contextTokens {context_tokens}")
    return TrainingSample(tokens, mask, (), 0.0, True, where, 0, str(row.get("instance_id", where)))


def _check_roles(messages: Any, where: str) -> None:
    roles = [message.get("role") for message in messages] if isinstance(messages, list) else []
    if not CONVERSATION.fullmatch("".join(ROLE_LETTERS.get(role, "?") for role in roles)):
        raise JobError(f"{where}: roles must be system, user, assistant, user or tools, assistant, ...; found {roles}")
