"""Release notes, from CHANGELOG.md."""

from __future__ import annotations

import re
from collections.abc import Sequence

UNRELEASED = "Unreleased"


def release_notes(changelog: str, version: str, images: Sequence[str]) -> str:
    """The changelog's section of `version`, else what is unreleased, and the images; ValueError without both."""
    sections = dict(re.findall(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL))
    heading = version if version in sections else UNRELEASED
    if heading not in sections:
        raise ValueError(f"CHANGELOG.md has neither a section [{version}] nor [{UNRELEASED}]; add one")
    title = version if heading == version else f"{version} (not released yet)"
    listing = "\n".join(f"- `{image}`" for image in images)
    return f"# swe-rl {title}\n\n{sections[heading].strip()}\n\n### Images\n\n{listing}\n"
