"""Published data sets whose rows cannot be graded as they are, and what to give instead.

Guarantee: a set is known by its whole name, without or with its owner's; a set of FAMILIES by the beginning of it.
Rows that bring what theirs lack are taken.
"""

from __future__ import annotations

from .images import COLUMNS, NAMESPACES, set_name
from .rows import Row

OWN_COLUMNS = "give rows with the columns image, eval_script and log_parser"
FAMILIES = {  # of all sets whose names begin so: Live has MultiLang and Windows, SWE-smith one for each language
    "swe-bench-live": f"its test commands and parsers differ by row; {OWN_COLUMNS}",
    "swe-smith": "its column patch is the bug, not the fix, and its images hold the repository without it;"
    " give rows with the reversed patch, images with the bug, and eval_script",
}
UNSUPPORTED = {
    "swe-bench-pro": f"its test scripts and parsers are files of its own repository; {OWN_COLUMNS}",
    "swe-bench-multilingual": f"its projects have runners that no table here describes; {OWN_COLUMNS}",
    "swe-bench-multimodal": f"its issues need pictures and its tests a browser; {OWN_COLUMNS} to try it",
    **dict.fromkeys(("swe-rebench", "swe-rebench-v2"), "keep the rows with install_config and an image"),
}
BLENDS = "nemotron"  # begins the names of sets that hold rows of several kinds


def unsupported_set(row: Row, *, scripted: bool) -> str | None:
    """Why rows of this one's set cannot be graded, None where this one can; `scripted`: it has its eval script."""
    name, columns = set_name(row.data_source), row.columns
    if name.startswith(BLENDS) and not columns.get("instance_id"):
        return (
            f"{row.data_source} holds rows of several kinds, and this is not a task; keep the rows with an instance_id"
        )
    imaged = name in NAMESPACES or any(columns.get(each) for each in COLUMNS)
    reason = _reason(row.data_source)
    if reason is None or (scripted and imaged):
        return None
    return f"{row.data_source} is not supported as it is: {reason}"


def _reason(data_source: str) -> str | None:
    """What rows of this set lack, None for a set that is not known to lack anything."""
    for name in (set_name(data_source), set_name(data_source.replace("/", "-"))):
        family = next((each for each in FAMILIES if f"{name}-".startswith(f"{each}-")), "")
        if reason := UNSUPPORTED.get(name) or FAMILIES.get(family):
            return reason
    return None
