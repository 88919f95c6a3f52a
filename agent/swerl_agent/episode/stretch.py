"""The noun `Stretch`: tokens the model read and sampled in one unbroken sequence.

Guarantees: the per-token lists are equally long; every sampled token has mask 1 in exactly one stretch of an episode,
the one it was sampled in; where the context was cut, a new stretch begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .engine import Generation


@dataclass
class Stretch:
    """One training sequence. The first `prompt_length` tokens were there before the first answer of the stretch."""

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

    def per_step(self) -> list[Stretch]:
        """One stretch per answer: all that was read before it as context, the answer alone with mask 1."""
        return [
            Stretch(
                tokens=self.tokens[:end],
                loss_mask=[0] * start + self.loss_mask[start:end],
                logprobs=[0.0] * start + self.logprobs[start:end] if self.logprobs else [],
                prompt_length=start,
                weight_versions=[span for span in self.weight_versions if start <= span[1] and span[2] <= end],
                answers=[(step, start, end)],
            )
            for step, start, end in self.answers
        ]


def samples(stretches: Sequence[Stretch], *, dynamic_history: bool) -> list[Stretch]:
    """What an episode is trained on: its stretches or, with dynamic history, one per step with the context of that
    step."""
    if not dynamic_history:
        return list(stretches)
    return [step for stretch in stretches for step in stretch.per_step()]
