"""Texts cut to what fits on a page.

Guarantee: the texts of one page, escaped, together stay within its budget; a cut text says how much is missing and
where all of it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from swerl_agent.visible import cut_middle, visible

PAGE_BYTES = 340_000  # of texts on one page, escaped
SHORTEST = 16  # characters that stay of any text


@dataclass(frozen=True)
class Block:
    """A text as a page shows it."""

    head: str
    tail: str = ""
    missing: int = 0  # characters between head and tail
    full: str = ""  # address of the whole text

    def __bool__(self) -> bool:
        return bool(self.head)

    @property
    def lines(self) -> int:
        """Lines of head and tail."""
        return self.head.count("\n") + self.tail.count("\n") + 1


@dataclass
class Budget:
    """What is left of a page's bytes."""

    left: int = PAGE_BYTES

    def cut(self, text: str, most: int, full: str = "") -> Block:
        """`text` in at most `most` bytes; `full` is the address of all of it."""
        room = min(most, self.left)
        fits = max(SHORTEST, room)
        while True:
            head, tail, missing = cut_middle(text, fits)
            head, tail = visible(head), visible(tail)
            if fits == SHORTEST or _size(head) + _size(tail) <= room:
                break
            fits = max(SHORTEST, min(fits, len(text)) * 2 // 3)  # what is escaped or shown as a symbol is longer
        self.left = max(0, self.left - _size(head) - _size(tail))
        return Block(head, tail, missing, full if missing else "")


def _size(text: str) -> int:
    """Bytes of a text in a page."""
    return len(escape(text).encode("utf-8", "replace")) if text else 0
