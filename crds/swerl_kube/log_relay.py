"""Lines of a program of others in the format of our logs: `python -m swerl_kube.log_relay IDS`, a JSON object.

Standard input has the program's lines: JSON as Rust's `tracing` writes it, or text. Guarantees: each line becomes one
line of JSON with the ids, in the order of the input; the relay ends when every writer of its input has ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

from .logs import LogSettings

MODULE = "swerl_kube.log_relay"
_KEYS = frozenset({"timestamp", "level", "target", "message", "fields"})  # of a line of `tracing`
_LEVELS = {"warn": "warning", "trace": "debug"}  # as Python names them


def relay_command(log: LogSettings) -> list[str]:
    """The command line of a relay that adds the ids of `log`."""
    return [sys.executable, "-m", MODULE, json.dumps(dict(log.ids))]


def relayed_line(line: str, ids: Mapping[str, object], now: str) -> str:
    """One line of JSON: time (of the line itself where it has one), level, logger, message, ids, what else it has."""
    found = _object(line)
    fields = {**found.get("fields", {}), **{key: value for key, value in found.items() if key not in _KEYS}}
    message = found.get("message") or fields.pop("message", None) or ("" if found else line)
    level = str(found.get("level") or "info").lower()
    head = {
        "time": found.get("timestamp") or now,
        "level": _LEVELS.get(level, level),
        "logger": found.get("target") or "text",
        "message": message,
    }
    return json.dumps({**fields, **head, **ids}, ensure_ascii=False, default=str)


def relay(lines: BinaryIO, output: BinaryIO, ids: Mapping[str, object]) -> None:
    """Write each line of `lines` to `output` as soon as it is whole."""
    for line in lines:
        text = line.decode(errors="replace").rstrip("\r\n")
        if text:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            output.write(f"{relayed_line(text, ids, now)}\n".encode())
            output.flush()


def _object(line: str) -> dict[str, Any]:
    """The line's object, with an object as `fields`; {} for text."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return found if isinstance(found.get("fields", {}), dict) else {}


if __name__ == "__main__":
    relay(sys.stdin.buffer, sys.stdout.buffer, json.loads(sys.argv[1]))
