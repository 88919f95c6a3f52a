"""Verdicts by content: the same patch on the same image under the same script and policy is graded once.

An image that is named by a tag may be another one tomorrow: a verdict holds the digest that its Job ran, and is
not used where the tag is known to mean another one now.

Guarantees: a verdict that says nothing about the patch (infra_error), or that a limit of time or memory decided, is
never kept; any number of processes may share a folder; a folder that cannot be read or written (full disk, damaged
file) costs a warning and a grading, never a verdict. A damaged file is put aside, not deleted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from swerl_api import GradingSpec

from swerl_agent.tasks import GroundTruth

from .verdict import Verdict

VERDICTS = "verdicts"  # the cache's folder in that of a job's or a command's output
MEMORY_ENTRIES = 10_000
FILE = "verdicts.sqlite"
BUSY_SECONDS = 10.0  # that a reader or writer waits for another one
# Rollback journal: the write-ahead log needs memory that processes of several nodes cannot share.
_SCHEMA = (
    "PRAGMA journal_mode = DELETE",
    "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict BLOB NOT NULL, made REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS calibrations (key TEXT PRIMARY KEY, calibration TEXT NOT NULL)",
)
log = logging.getLogger(__name__)


class VerdictCache:
    """In memory, and in `directory`/verdicts.sqlite when one is given. Calls may block: not for an event loop."""

    def __init__(self, directory: Path | None = None) -> None:
        self._memory: dict[str, bytes] = {}  # as in the database
        self._path = directory / FILE if directory else None

    def get(self, key: str, image: str = "") -> Verdict | None:
        """The verdict of `key`, marked as cached; `image`: what it must have run, where both are known."""
        verdict = self._kept(self._memory.get(key)) or self._load(key)
        if verdict is None or (image and verdict.image and _digest(image) != _digest(verdict.image)):
            return None
        return replace(verdict, cached=True)

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep `verdict` unless it may be another one next time."""
        if not verdict.lasting:
            return
        while len(self._memory) >= MEMORY_ENTRIES:
            del self._memory[next(iter(self._memory))]
        self._memory[key] = content = zlib.compress(json.dumps(asdict(verdict)).encode())  # logs are most of it
        self._query("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", key, content, time.time())

    def calibration(self, key: str) -> dict[str, Any] | None:
        """The calibration of a task's contrast, as `keep_calibration` got it."""
        row = self._query("SELECT calibration FROM calibrations WHERE key = ?", key)
        try:
            return dict(json.loads(row[0])) if row else None
        except (ValueError, TypeError):
            return None

    def keep_calibration(self, key: str, calibration: Mapping[str, Any]) -> None:
        """Keep it, where there is a folder to keep it in."""
        self._query("INSERT OR REPLACE INTO calibrations VALUES (?, ?)", key, json.dumps(calibration))

    def _load(self, key: str) -> Verdict | None:
        row = self._query("SELECT verdict FROM verdicts WHERE key = ?", key)
        return self._kept(row[0]) if row else None

    def _kept(self, content: bytes | None) -> Verdict | None:
        try:
            return Verdict(**json.loads(zlib.decompress(content))) if content else None
        except (ValueError, TypeError, zlib.error):
            return None

    def _query(self, statement: str, *values: str | bytes | float) -> tuple[Any, ...] | None:
        """The first row; None also when there is no database or it fails, which is a warning."""
        if self._path is None:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as database, database:
                for each in _SCHEMA:
                    database.execute(each)
                row: tuple[Any, ...] | None = database.execute(statement, values).fetchone()
                return row
        except (sqlite3.Error, OSError) as error:
            log.warning("verdicts are not kept in %s: %s", self._path, error)
            if type(error) is sqlite3.DatabaseError:  # no database at all; its subclasses mean busy, full, read-only
                with suppress(OSError):
                    self._path.rename(self._path.with_name(f"{FILE}.damaged-{time.time_ns()}"))
        return None


def _digest(image: str) -> str:
    return image.rpartition("sha256:")[2]


@cache
def grader_version() -> str:
    """Names the rules that make verdicts: another one for other code of this package or another swebench."""
    package = resources.files(__package__)
    folders = (package, package / "witness", package / "witness" / "runners")
    files = [each for folder in folders for each in folder.iterdir() if each.is_file()]
    code = [each.read_bytes() for each in sorted(files, key=lambda each: each.name)]
    return cache_key([metadata.version("swebench"), *code])


def limits(settings: GradingSpec) -> list[str]:
    """What of the settings may change a verdict."""
    amounts = {**settings.resources.requests, **settings.resources.limits}
    shown = [f"{name}={amount}" for name, amount in sorted(amounts.items())]
    return [str(settings.timeout_seconds), settings.contrast, str(settings.allow_unshielded), *shown]


def criteria(ground_truth: GroundTruth) -> list[str]:
    """What a verdict on a log depends on beside the log."""
    tests = [*ground_truth.fail_to_pass, "", *ground_truth.pass_to_pass, "", *map(repr, ground_truth.expected_output)]
    return [ground_truth.log_parser, ground_truth.eval_type, *tests]


def cache_key(parts: Iterable[bytes | str]) -> str:
    """Hex sha256 over the parts and their lengths."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
