"""SGLang's log as lines of JSON with the ids of the job, through its own logging configuration.

Guarantee: a configuration that the user names in SGLANG_LOGGING_CONFIG_PATH stays in force.
"""

from __future__ import annotations

import json
import logging.config
import os
from pathlib import Path
from typing import Any

from swerl_kube.logs import JsonFormatter, LogSettings

CONFIG_VARIABLE = "SGLANG_LOGGING_CONFIG_PATH"  # SGLang passes the file to logging.config.dictConfig in each process
QUIET = ("httpx", "httpcore")  # as without a configuration


def write_config(file: Path, log: LogSettings, level: str) -> dict[str, str]:
    """Write SGLang's logging configuration to `file`; the environment that makes a server use it. Nothing for text."""
    if log.format != "json" or CONFIG_VARIABLE in os.environ:
        return {}
    formatter = {"()": f"{JsonFormatter.__module__}.{JsonFormatter.__qualname__}", "ids": dict(log.ids)}
    config: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": formatter},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}},
        "loggers": {name: {"level": "WARNING"} for name in QUIET},
        "root": {"level": level.upper(), "handlers": ["out"]},
    }
    file.write_text(json.dumps(config))
    return {CONFIG_VARIABLE: str(file)}


def apply_config() -> None:
    """Put a logging configuration in force in this process, for the HTTP server's lines too; no-op without one.

    SGLang itself reads it after it has imported the models; what it logs as it parses its arguments stays text.
    """
    if CONFIG_VARIABLE not in os.environ:
        return
    from uvicorn.config import LOGGING_CONFIG

    logging.config.dictConfig(json.loads(Path(os.environ[CONFIG_VARIABLE]).read_text()))
    for settings in LOGGING_CONFIG["loggers"].values():
        settings |= {"handlers": [], "propagate": True}
