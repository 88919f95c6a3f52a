"""Which server arguments a job may give its engines.

Guarantees: no argument is taken that another field sets, that opens the server to others, or that runs foreign code.
Both spellings and the abbreviations that argparse takes are refused. A value adds no argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CODE = "it runs code that is not of the job's image; leave it out"
_OURS = "operator and driver set it; leave it out"
REFUSED = {
    "trust-remote-code": f"{_CODE} and use a family of docs/models.md",
    "custom-weight-loader": _CODE,
    "custom-sigquit-handler": _CODE,
    "enable-custom-logit-processor": "clients could send code to the engine; leave it out",
    "forward-hooks": _CODE,
    "config": "a file of arguments is not checked; write them in engineArgs",
    "host": _OURS,
    "port": _OURS,
    "api-key": _OURS,
    "admin-api-key": _OURS,
    "grpc-mode": "engines serve HTTP with a key; leave it out",
    "tool-server": "engines call no tools; leave it out",
    "model": "another field names the model; use model.source",
    "model-path": "another field names the model; use model.source",
    "tokenizer-path": "trainer and engines share one tokenizer; use model.source",
    "tp-size": "another field sets it; use gpusPerEngine",
    "tensor-parallel-size": "another field sets it; use gpusPerEngine",
}
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")


def checked_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments`; raises ValueError that says which one is refused, its value and what to do."""
    problem = argument_problem(arguments)
    if problem:
        raise ValueError(problem)
    return arguments


def argument_problem(arguments: Mapping[str, Any]) -> str:
    """Why the first refused one of `arguments`, by name without dashes, is refused; empty when none is."""
    for name, value in arguments.items():
        if not _NAME.fullmatch(name):
            return f"{name!r} is not the name of an argument; write it as in mem-fraction-static: 0.6"
        if remedy := _remedy(name.replace("_", "-")):
            return f"{name}: {value!r} is refused: {remedy}"
        for text in value if isinstance(value, list) else [value]:
            if str(text).startswith("-") and not _NUMBER.fullmatch(str(text)):
                return f"{name}: {value!r} is refused: its value starts with a dash; write each argument by name"
    return ""


def _remedy(name: str) -> str:
    """What to do instead; empty for an argument that is free. argparse takes the start of a name for the whole."""
    exact = REFUSED.get(name, "")
    return exact or next((remedy for refused, remedy in REFUSED.items() if refused.startswith(name)), "")
