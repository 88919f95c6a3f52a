"""Eval scripts for rows that come without one.

Guarantees: a row's own script comes first, then that of another source, then the one that the table of test specs
renders. A row without any is an error that says what to give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .sources import RowSource
from .task import TaskError
from .test_specs import render_eval_script

_CHECKOUT = re.compile(r"^\s*git checkout (?:-\S+ )*[0-9a-f]{7,64}\s*$", re.MULTILINE)


def scripts_of(source: RowSource) -> dict[str, str]:
    """Eval scripts of another source by lower-cased instance_id; raises TaskError when it has none."""
    columns = (unread.row().columns for unread in source.unread_rows())
    found = {str(row.get("instance_id")).lower(): row.get("eval_script") for row in columns}
    scripts = {name: script for name, script in found.items() if isinstance(script, str) and script}
    if not scripts:
        raise TaskError(f"{source.text} has no column eval_script")
    return scripts


def eval_script_of(columns: Mapping[str, Any], scripts: Mapping[str, str]) -> str:
    """The script that grades a row; `scripts` are those of another source by lower-cased instance_id.

    Raises ValueError when there is none.
    """
    given = columns.get("eval_script") or scripts.get(str(columns.get("instance_id") or "").lower())
    if given:
        return str(given)
    try:
        return render_eval_script(columns)
    except ValueError as error:
        raise ValueError(
            f"no eval script: the row has no column eval_script, and {error}; take it from another source with"
            " --eval-scripts"
        ) from error


def script_warning(script: str) -> str | None:
    """What a script does that undoes a patch, or None."""
    if found := _CHECKOUT.search(script):
        return (
            f"its eval script runs `{found[0].strip()}` without a path, which can undo the patch; name the test files"
        )
    return None
