"""The live file of an episode: what it has done so far, for viewers, while it runs.

Guarantees: a file only grows until it is removed, one JSON object a line. Writing never blocks an episode, and a disk
that refuses never ends one. All writes of a process happen in one thread, in their order.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SUFFIX = "live.jsonl"  # of the file's name, after the episode's prefix
log = logging.getLogger(__name__)
_writer = ThreadPoolExecutor(1, thread_name_prefix="live-episodes")


class LiveFile:
    """The live file at `path`; `about` says which episode it is."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self._path = path
        self._sent = 0  # messages in the file
        self._last: object = None  # the newest of them
        self._steps = 0  # records in the file
        self._open = True
        _writer.submit(self._write, {"about": {**about, "started": time.time()}}, "wb")

    def report(self, state: str, messages: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> None:
        """Add the state and what is new since the last report; returns at once.

        An agent may continue another conversation: then all messages are written again, from the first.
        """
        same = self._sent <= len(messages) and (not self._sent or messages[self._sent - 1] == self._last)
        first = self._sent if same else 0
        line = {
            "state": state,
            "at": time.time(),
            "first": first,
            "messages": list(messages[first:]),
            "steps": list(steps[self._steps :]),
        }
        self._sent, self._steps = len(messages), len(steps)
        self._last = messages[-1] if messages else None
        _writer.submit(self._write, line, "ab")

    def _write(self, line: Mapping[str, Any], mode: str) -> None:
        if not self._open:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode) as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            self._open = False
            log.warning("%s cannot be written, so viewers do not see this episode while it runs: %s", self._path, error)


def remove_live_file(path: Path) -> None:
    """Remove a live file after everything that was reported is in it; blocks until then."""
    _writer.submit(path.unlink, missing_ok=True).exception()
