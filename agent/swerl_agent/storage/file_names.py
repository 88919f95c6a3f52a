"""Safe file names from identifiers of other systems."""

from __future__ import annotations

import re


def file_name(text: str) -> str:
    """`text` as a single file name: characters other than A-Z a-z 0-9 . _ - become _; never empty, `.` or `..`."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", text)
    return safe if safe.strip(".") else safe.replace(".", "_") or "_"
