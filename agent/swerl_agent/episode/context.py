"""Context window: how many tokens fit, and which turns of a conversation the model still sees.

Guarantees: the first turns (head), the last ones (tail) and the latest observation always stay; one run of turns
between them is omitted; room that the head does not use goes to the tail. A cut frees a share of the tail at once, so
that the prefix, and with it the engine's cache, stays valid for many steps. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swerl_api import AgentSpec

SLACK = 0.25  # share of the tail's tokens that a cut frees for later turns


def max_input_tokens(spec: AgentSpec) -> int:
    """Tokens the model may read so that an answer of maxTokensPerTurn still fits."""
    return max(1, spec.context_tokens - spec.max_tokens_per_turn)


def omits_turns(spec: AgentSpec) -> bool:
    """Whether turns are omitted where the longest answer does not fit; else the episode ends there."""
    return spec.context_policy == "omit"


def answer_room(spec: AgentSpec, length: int) -> int:
    """Tokens left for the answer to a prompt of `length` tokens; below 1 when no answer may follow."""
    room = spec.context_tokens - length
    return room if omits_turns(spec) or room >= spec.max_tokens_per_turn else 0


@dataclass(frozen=True)
class Window:
    """Turns [0, head) and [tail, end) are shown."""

    head: int
    tail: int

    @property
    def omitted(self) -> int:
        """Turns left out."""
        return self.tail - self.head


def choose_window(costs: Sequence[int], available: int, head_ratio: float, *, slack: float = SLACK) -> Window:
    """The window over turns of `costs` tokens (at least one) that fits `available`; the last turn is always kept.

    `head_ratio`: share of `available` for the first turns.
    """
    *earlier, latest = costs
    head = _fitting(earlier, min(int(available * head_ratio), available - latest))
    room = available - sum(earlier[:head])
    tail = _fitting(reversed(earlier[head:]), int(room * (1 - slack)) - latest)
    return Window(head, len(earlier) - tail)


def omission_note(count: int) -> str:
    """The note that replaces `count` omitted turns."""
    return f"[... {count} {'turn' if count == 1 else 'turns'} left out here: the context window is full ...]"


def _fitting(costs: Iterable[int], available: int) -> int:
    """How many of the first `costs` fit into `available` together."""
    count = total = 0
    for cost in costs:
        total += cost
        if total > available:
            break
        count += 1
    return count
