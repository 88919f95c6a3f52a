"""Logs as one JSON object per line, with the object they concern if kopf knows it."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """time, level, logger, message; namespace, name and kind of the object; error with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        reference = getattr(record, "k8s_ref", None)
        if isinstance(reference, dict):
            line |= {key: reference[key] for key in ("kind", "namespace", "name") if reference.get(key)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logging(level: str) -> None:
    """Send everything at `level` and above to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if level != "DEBUG":
        logging.getLogger("kopf.objects").setLevel("WARNING")  # else one line per event of every sandbox
