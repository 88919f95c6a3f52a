"""`TokenSegment`: tokens that the model read and sampled in one unbroken sequence.

Guarantees: the per-token lists have equal length. Every sampled token has mask 1 in exactly one segment of an episode,
the one it was sampled in. A new segment begins wherever turns are omitted from the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .engine import Generation


@dataclass
class TokenSegment:
    """One token sequence; its first `prompt_length` tokens precede the segment's first answer."""

    tokens: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)  # 1 at sampled tokens
    logprobs: list[float] = field(default_factory=list)  # 0.0 at tokens not sampled; empty when unknown
    prompt_length: int = 0
    weight_versions: list[tuple[str, int, int]] = field(default_factory=list)  # (version, first token, end)
    answers: list[tuple[int, int, int]] = field(default_factory=list)  # (step of the episode, first token, end)

    def read(self, ids: Sequence[int]) -> None:
        """Append tokens that were not sampled."""
        self.tokens += ids
        self.loss_mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def sample(self, step: int, generation: Generation) -> None:
        """Append the answer of a step of the episode."""
        start = len(self.tokens)
        self.tokens += generation.output_ids
        self.loss_mask += [1] * len(generation.output_ids)
        self.logprobs += generation.logprobs
        self.weight_versions += [(version, start + a, start + b) for version, a, b in generation.weight_versions]
        self.answers.append((step, start, len(self.tokens)))

    def per_step(self) -> list[TokenSegment]:
        """One segment per answer: all that was read before it as context, the answer alone with mask 1."""
        return [
            TokenSegment(
                tokens=self.tokens[:end],
                loss_mask=[0] * start + self.loss_mask[start:end],
                logprobs=[0.0] * start + self.logprobs[start:end] if self.logprobs else [],
                prompt_length=start,
                weight_versions=[span for span in self.weight_versions if start <= span[1] and span[2] <= end],
                answers=[(step, start, end)],
            )
            for step, start, end in self.answers
        ]


def training_segments(segments: Sequence[TokenSegment], *, dynamic_history: bool) -> list[TokenSegment]:
    """The segments an episode is trained on: its own or, with dynamic history, one per step."""
    if not dynamic_history:
        return list(segments)
    return [step for segment in segments for step in segment.per_step()]
