"""Hostile text for people: what a terminal or a browser would act on is shown as a character."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_COLOURS = re.compile(r"\x1b\[[0-9;]{0,64}m")
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")
_LINE_ENDS = re.compile(r"\r\n")


def visible(text: str) -> str:
    """`text` without colour sequences; other control, direction and unpaired surrogate characters as symbols."""
    plain = _LINE_ENDS.sub("\n", _COLOURS.sub("", text))
    return plain if plain.isprintable() else _SUSPECT.sub(lambda found: _shown(found[0]), plain)


@lru_cache(maxsize=4096)
def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if unicodedata.category(letter) == "Zs":
        return letter
    return f"\u27e8U+{code:04X}\u27e9"


def cut_middle(text: str, most: int) -> tuple[str, str, int]:
    """The beginning and end of a text of which at most `most` characters stay, and how many are missing."""
    if len(text) <= most:
        return text, "", 0
    head = most * 2 // 3
    tail = most - head
    return text[:head], text[len(text) - tail :] if tail else "", len(text) - most
