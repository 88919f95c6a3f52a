"""Counts and ids under the names that the SWE-bench harness gives them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

SUBMITTED, COMPLETED, RESOLVED, UNRESOLVED, EMPTY_PATCH, ERROR = KINDS = (
    "submitted",
    "completed",
    "resolved",
    "unresolved",
    "empty_patch",
    "error",
)


def harness_summary(ids: Mapping[str, Collection[str]], total: int | None = None) -> dict[str, Any]:
    """`total_instances`, and `<kind>_instances` and sorted `<kind>_ids` for each of KINDS and each other kind of `ids`.

    `total`: tasks that were chosen; by default those submitted.
    """
    found = {kind: sorted(ids.get(kind, ())) for kind in dict.fromkeys([*KINDS, *ids])}
    return {
        "total_instances": len(found[SUBMITTED]) if total is None else total,
        **{f"{kind}_instances": len(names) for kind, names in found.items()},
        **{f"{kind}_ids": names for kind, names in found.items()},
    }
