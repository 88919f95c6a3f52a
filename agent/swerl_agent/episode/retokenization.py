"""Tokens of a conversation whose text alone is known, as agents without token access leave it.

Guarantees: each answer's header appears once and is never trained. An answer's context is the chat template's rendering
of the messages before it, with thinking blocks stripped or inserted as the template does. Where that rendering differs
from the earlier tokens, a new segment begins, so every trained context is one the server showed. Log-probs are unknown.
Token-in/token-out does not use this module: retokenized text may yield other tokens than the model sampled.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from .parsing import THOUGHT
from .token_segment import TokenSegment
from .tokens import HFTokenizer


class RetokenizationError(ValueError):
    """The conversation cannot be tokenized; the message names the place."""


def cut_answers(tokenizer: HFTokenizer, segments: Iterable[TokenSegment]) -> set[str]:
    """Texts of sampled answers that no sampled token ends, since their length cut them."""
    sampled = [segment.tokens[start:end] for segment in segments for _, start, end in segment.answers]
    return {tokenizer.decode(ids) for ids in sampled if ids and ids[-1] not in tokenizer.stop_token_ids}


def retokenize(
    tokenizer: HFTokenizer,
    messages: Sequence[Mapping[str, str]],
    *,
    max_context: int | None = None,
    cut: Container[str] = (),
) -> list[TokenSegment]:
    """The segments of a conversation (roles system, user, tool, assistant).

    Messages after the last answer are left out. The first answer whose context exceeds `max_context` tokens, and all
    that follows it, are left out too. The token that ends an answer in `cut` is not trained. Raises
    RetokenizationError, and TokenizerError when the chat template refuses the messages.
    """
    segments: list[TokenSegment] = []
    step = 0
    for position, message in enumerate(messages):
        if message["role"] not in ("system", "user", "tool", "assistant"):
            raise RetokenizationError(f"message {position} has the unknown role {message['role']!r}")
        if message["role"] == "assistant":
            if not position:
                raise RetokenizationError("the first message is an answer; a conversation begins with system or user")
            context = tokenizer.rendered(messages[:position])
            if max_context is not None and len(context) > max_context:
                break
            following = messages[position + 1]["role"] if position + 1 < len(messages) else "user"
            content = message["content"]
            answer = answer_tokens(tokenizer, content, following)
            _answer(segments, context, answer, step, trained=len(answer) - (content in cut))
            step += 1
    return segments


def answer_tokens(tokenizer: HFTokenizer, text: str, following: str) -> list[int]:
    """Ids of an answer and the token that ends it before a message of role `following`.

    The part of the answer that the template's header already contains is left out.
    """
    header = tokenizer.header()
    opened = header[header.find(THOUGHT) :] if THOUGHT in header else ""
    if opened and text.startswith(opened):
        text = text[len(opened) :]
    return [*tokenizer.encode_answer(text), tokenizer.tool_end_id if following == "tool" else tokenizer.turn_end_id]


def _answer(segments: list[TokenSegment], context: list[int], answer: list[int], step: int, *, trained: int) -> None:
    """Append the answer to the newest segment if its context extends that segment, else to a new one.

    Its first `trained` tokens are trained.
    """
    known = segments[-1].tokens if segments else None
    if known is None or context[: len(known)] != known:
        segments.append(TokenSegment(prompt_length=len(context)))
        known = []
    segment = segments[-1]
    read = context[len(known) :]
    start = len(known) + len(read)
    segment.tokens += [*read, *answer]
    segment.loss_mask += [0] * len(read) + [1] * trained + [0] * (len(answer) - trained)
    segment.answers.append((step, start, start + trained))
