"""SWE-rebench's columns, of its first set and of V2, as SWE-bench's.

Guarantees: test command, log parser and work folder are those of the row (`install_config`); the first set's images
have SWE-bench's layout, V2's hold the repository in a folder at the top that has its name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from .columns import decoded
from .test_specs import CONDA, FOLDER, OFFLINE, eval_script, targets_of

CONFIG = "install_config"


def is_rebench(columns: Mapping[str, Any]) -> bool:
    """Whether a row is one of SWE-rebench's and has no eval script."""
    return bool(columns.get(CONFIG)) and not columns.get("eval_script")


def swebench_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The row with eval_script, log_parser and workdir; raises ValueError naming the field that cannot be read."""
    config = decoded(columns, CONFIG)
    if not isinstance(config, Mapping):
        raise ValueError(f"field {CONFIG} must be an object or its JSON")
    commands, parser = _commands(config), config.get("log_parser")
    if not isinstance(parser, str) or not parser:
        raise ValueError(f"field {CONFIG}.log_parser is missing")
    first = bool(config.get("python"))  # only the first set, which is Python alone, says which
    folder = FOLDER if first else _folder(columns)
    script = _of_first_set(columns, config, commands) if first else _of_v2(columns, folder, commands)
    return {"workdir": folder, **columns, "eval_script": script, "log_parser": parser}


def _commands(config: Mapping[str, Any]) -> list[str]:
    value = config.get("test_cmd")
    found = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
    commands = [command for command in found if isinstance(command, str) and command.strip()]
    if not commands:
        raise ValueError(f"field {CONFIG}.test_cmd is missing")
    return commands


def _folder(columns: Mapping[str, Any]) -> str:
    name = posixpath.basename(str(columns.get("repo") or ""))
    if not name or name.startswith("."):
        raise ValueError(f"field repo must be owner/name, not {columns.get('repo')!r}")
    return f"/{name}"


def _of_v2(columns: Mapping[str, Any], folder: str, commands: Sequence[str]) -> str:
    return eval_script(columns, folder=folder, setup=[f"cd {folder}"], command="\n".join(commands))


def _of_first_set(columns: Mapping[str, Any], config: Mapping[str, Any], commands: Sequence[str]) -> str:
    targets = targets_of("files", str(columns.get("test_patch") or ""))
    if not targets:
        raise ValueError(f"its test patch changes nothing that `{commands[-1]}` runs")
    command = "\n".join([*commands[:-1], " ".join([commands[-1], *targets])])
    setup = (*CONDA, f"cd {FOLDER}", OFFLINE)
    return eval_script(columns, folder=FOLDER, setup=setup, install=str(config.get("install") or ""), command=command)
