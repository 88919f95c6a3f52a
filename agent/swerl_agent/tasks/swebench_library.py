"""The `swebench` library, without what it needs for other purposes than grading."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HARNESS = "swebench.harness"


@cache
def library() -> tuple[ModuleType, ModuleType, Any]:
    """swebench's grading, its log parsers, and its type TestSpec.

    The package around them imports docker, modal and datasets, which takes seconds and 150 MB and serves nothing here:
    a bare package stands in its place while these modules are imported, and none of them stays registered.
    """
    types = importlib.import_module("swebench.types")
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_harness(name)}
    bare = sys.modules[HARNESS] = ModuleType(HARNESS)
    bare.__path__ = [str(Path(str(types.__file__)).parent / "harness")]
    try:
        grading = importlib.import_module(f"{HARNESS}.grading")
        parsers = importlib.import_module(f"{HARNESS}.log_parsers")
    finally:
        for name in filter(_is_harness, list(sys.modules)):
            del sys.modules[name]
        sys.modules.update(before)
    return grading, parsers, types.TestSpec


def _is_harness(module: str) -> bool:
    return module == HARNESS or module.startswith(f"{HARNESS}.")
