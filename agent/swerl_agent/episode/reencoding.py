"""Tokens of a conversation of which only the text is known: what an agent that gives no tokens leaves behind.

Guarantees: the header of an answer stands once, never trained; an answer's context is what a chat server's template
makes of the messages before it, thinking blocks stripped or inserted as that template does; where this differs from
what was read before, a new stretch begins, so no answer is trained with a context such a server did not show. Log-probs
are unknown. Token-in/token-out needs none of this: text that is encoded again may give other tokens than were sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .parsing import THOUGHT
from .stretch import Stretch
from .tokens import HFTokenizer


class ReencodingError(ValueError):
    """A conversation that cannot be encoded; the message names the place."""


def reencode(
    tokenizer: HFTokenizer, messages: Sequence[Mapping[str, str]], *, max_context: int | None = None
) -> list[Stretch]:
    """The stretches of a conversation (roles system, user, tool, assistant).

    Messages after the last answer are left out, and so is what comes from the first answer on whose context has more
    than `max_context` tokens. Raises ReencodingError, and TokenizerError when the chat template refuses the messages.
    """
    stretches: list[Stretch] = []
    step = 0
    for position, message in enumerate(messages):
        if message["role"] not in ("system", "user", "tool", "assistant"):
            raise ReencodingError(f"message {position} has the unknown role {message['role']!r}")
        if message["role"] == "assistant":
            if not position:
                raise ReencodingError("the first message is an answer: there is nothing that asked for it")
            context = tokenizer.rendered(messages[:position])
            if max_context is not None and len(context) > max_context:
                break
            following = messages[position + 1]["role"] if position + 1 < len(messages) else "user"
            _answer(stretches, context, answer_tokens(tokenizer, message["content"], following), step)
            step += 1
    return stretches


def answer_tokens(tokenizer: HFTokenizer, text: str, following: str) -> list[int]:
    """Ids of an answer and the token that ends it before a message of role `following`, without what the template's
    header has said already."""
    header = tokenizer.header()
    opened = header[header.find(THOUGHT) :] if THOUGHT in header else ""
    if opened and text.startswith(opened):
        text = text[len(opened) :]
    return [*tokenizer.said(text), tokenizer.tool_end_id if following == "tool" else tokenizer.turn_end_id]


def _answer(stretches: list[Stretch], context: list[int], answer: list[int], step: int) -> None:
    """Add an answer: to the newest stretch when its context begins with all of that, else to a new one."""
    known = stretches[-1].tokens if stretches else None
    if known is None or context[: len(known)] != known:
        stretches.append(Stretch(prompt_length=len(context)))
        known = []
    stretch = stretches[-1]
    read = context[len(known) :]
    start = len(known) + len(read)
    stretch.tokens += [*read, *answer]
    stretch.loss_mask += [0] * len(read) + [1] * len(answer)
    stretch.answers.append((step, start, start + len(answer)))
