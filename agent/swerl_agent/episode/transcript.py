"""The exact tokens of an episode.

Guarantees: sampled ids stand as the engine gave them, with mask 1 and their log-probs; everything else has mask 0 and
log-prob 0; the four lists always have one entry per token; nothing is appended that no generation will read.
"""

from __future__ import annotations

from .engine import Generation
from .tokens import Tokenizer


class Transcript:
    """Token record of one conversation that begins with `prompt` (ids)."""

    def __init__(self, tokenizer: Tokenizer, prompt: list[int]) -> None:
        self._tokenizer = tokenizer
        self.tokens = list(prompt)
        self.loss_mask = [0] * len(prompt)
        self.logprobs = [0.0] * len(prompt)
        self.weight_versions: list[tuple[str, int, int]] = []  # (version, first token, end), sampled tokens only
        self._pending: list[int] = []
        self.prompt_length = len(prompt)

    def room(self, context_tokens: int) -> int:
        """Tokens that still fit into the context after what the next generation must read."""
        return context_tokens - len(self.tokens) - len(self._pending)

    def observe(self, content: str) -> None:
        """Close the last answer and add the user message `content`; it counts once a generation follows."""
        closed = bool(self.tokens) and self.tokens[-1] == self._tokenizer.turn_end_id
        self._pending = ([] if closed else [self._tokenizer.turn_end_id]) + self._tokenizer.delta(content)

    def input_ids(self) -> list[int]:
        """What the engine reads next; what was pending is part of the record from here on."""
        self.tokens += self._pending
        self.loss_mask += [0] * len(self._pending)
        self.logprobs += [0.0] * len(self._pending)
        self._pending = []
        return self.tokens

    def answer(self, generation: Generation) -> str:
        """Append what was sampled; its text without the closing token."""
        start = len(self.tokens)
        self.tokens += generation.output_ids
        self.loss_mask += [1] * len(generation.output_ids)
        self.logprobs += generation.logprobs
        self.weight_versions += [(version, start + a, start + b) for version, a, b in generation.weight_versions]
        text_ids = list(generation.output_ids)
        if text_ids and text_ids[-1] in self._tokenizer.stop_token_ids:
            text_ids.pop()
        return self._tokenizer.decode(text_ids)
