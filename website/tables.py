"""Markdown tables of generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(`[^`]*`)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with these cells; empty without rows."""
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) if lines else ""


def cell(text: str) -> str:
    """Plain text with inline code as the content of a cell."""
    parts = CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts).replace("|", "\\|")


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
