"""File names out of what others call a thing."""

from __future__ import annotations

import re


def file_name(text: str) -> str:
    """`text` as the name of one file: other characters than A-Z a-z 0-9 . _ - become _, and it is no way out."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", text)
    return safe if safe.strip(".") else safe.replace(".", "_") or "_"
