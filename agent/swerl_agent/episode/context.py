"""Which turns of a conversation the model still sees when not all of them fit.

Guarantees: the first turns (head) and the last ones (tail) stay, the latest observation always; what is left out is one
run of turns between them; room that the head does not use goes to the tail; a cut frees a share of the tail at once, so
that the prefix stays the same, and the engine's cache useful, for many steps. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SLACK = 0.25  # share of the tail's budget that a cut frees for the turns to come


@dataclass(frozen=True)
class Budget:
    """Tokens of the context window and how they are shared."""

    context_tokens: int = 16_384
    max_new_tokens: int = 4_096
    head_ratio: float = 0.3
    omits: bool = True  # turns are left out where they leave no room for the longest answer; else that is the end

    @property
    def max_input(self) -> int:
        """Tokens the model may read so that its longest answer still fits."""
        return max(1, self.context_tokens - self.max_new_tokens)

    def room(self, length: int) -> int:
        """Tokens of the window left for the answer to a prompt of `length` tokens; below 1 when none is to follow."""
        room = self.context_tokens - length
        return room if self.omits or room >= self.max_new_tokens else 0

    def split(self, available: int) -> tuple[int, int]:
        """`available` tokens as (head, tail)."""
        head = int(available * self.head_ratio)
        return head, available - head


@dataclass(frozen=True)
class Window:
    """Turns [0, head) and [tail, end) are shown."""

    head: int
    tail: int

    @property
    def omitted(self) -> int:
        """Turns left out."""
        return self.tail - self.head


def choose_window(costs: Sequence[int], available: int, budget: Budget, *, slack: float = SLACK) -> Window:
    """The window over turns of `costs` tokens (at least one) that fits `available`, the last turn kept in any case."""
    *earlier, latest = costs
    head_budget, _ = budget.split(available)
    head = _fitting(earlier, min(head_budget, available - latest))
    room = available - sum(earlier[:head])
    tail = _fitting(reversed(earlier[head:]), int(room * (1 - slack)) - latest)
    return Window(head, len(earlier) - tail)


def omission_note(count: int) -> str:
    """What stands where `count` turns were."""
    return f"[... {count} {'turn' if count == 1 else 'turns'} left out here: the context window is full ...]"


def _fitting(costs: Iterable[int], budget: int) -> int:
    """How many of the first `costs` fit into `budget` together."""
    count = total = 0
    for cost in costs:
        total += cost
        if total > budget:
            break
        count += 1
    return count
