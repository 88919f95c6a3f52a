"""The `swebench` library, without what it needs for other purposes than grading. Any thread may ask for it."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

HARNESS = "swebench.harness"
Library = tuple[ModuleType, ModuleType, Any]
_importing = Lock()  # what stands in place of the package is seen by every thread


def library() -> Library:
    """swebench's grading, its log parsers, and its type TestSpec."""
    with _importing:
        return _imported()


@cache
def _imported() -> Library:
    """The modules, without the package around them.

    That one imports docker, modal and datasets, which takes seconds and 150 MB and serves nothing here: a bare package
    stands in its place while these modules are imported, and none of them stays registered.
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
