"""Logs of every process: lines of text, or one JSON object per line with the ids of what the line concerns.

Guarantee: a line that is logged inside `log_ids` has those ids, also when another thread writes it later.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO

from swerl_api.base import LogFormat

EVENT_REASON = "event_reason"  # attribute of a record whose line is also an Event
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NONE: Mapping[str, object] = {}
_ids: ContextVar[Mapping[str, object]] = ContextVar("log_ids", default=_NONE)


@contextmanager
def log_ids(**ids: object) -> Iterator[None]:
    """Lines logged inside, also by tasks that start inside, have `ids` beside those of the blocks around."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def add_ids(record: logging.LogRecord) -> bool:
    """A filter of handlers: keeps the present ids in the record; passes every record."""
    record.ids = _ids.get()
    return True


class JsonFormatter(logging.Formatter):
    """time, level, logger, message; ids of process and line; kopf's object; event; error with its traceback."""

    def __init__(self, ids: Mapping[str, object] = _NONE) -> None:
        super().__init__()
        self._ids = ids

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {**self._ids, **getattr(record, "ids", _NONE)}
        reference = getattr(record, "k8s_ref", None)
        if isinstance(reference, dict):
            line |= {key: reference[key] for key in ("kind", "namespace", "name") if reference.get(key)}
        if reason := getattr(record, EVENT_REASON, None):
            line["event"] = reason
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class LogSettings:
    """How one process logs; `ids`: what all its lines concern."""

    format: LogFormat = "text"
    ids: Mapping[str, object] = field(default_factory=dict)

    def formatter(self) -> logging.Formatter:
        """The formatter of its lines."""
        return JsonFormatter(self.ids) if self.format == "json" else logging.Formatter(TEXT)

    def configure(self, stream: TextIO, level: str = "INFO") -> logging.Handler:
        """Send everything at `level` and above to `stream`, in place of an earlier stream; the stream's handler."""
        handler = logging.StreamHandler(stream)
        handler.setFormatter(self.formatter())
        handler.addFilter(add_ids)
        root = logging.getLogger()
        for earlier in [each for each in root.handlers if type(each) is logging.StreamHandler]:
            root.removeHandler(earlier)
        root.addHandler(handler)
        root.setLevel(level)
        return handler
