"""What the installation steps of an eval script left behind that its tests run with, and what of it is foreign.

Guarantees: nothing counts that the steps leave with the reference fix, too, or that says where the package lies. The
reference fix runs for this once per task and image, and only where a patch left something.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence

from swerl_agent.tasks import Task

from .cache import VerdictCache, cache_key
from .framing import Report
from .shared_runs import SharedRuns
from .test_record import MAX_NAMED, TestRecord
from .verdict import Verdict

LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")  # as the witness writes digests
LeftWithReference = Callable[[Task], Awaitable[tuple[str, ...] | None]]
_VARIES = re.compile(r"\bg?[0-9a-f]{7,}\b|\d+")  # in names and lines: versions, commits, dates, numbers of lines
_GENERIC = re.compile(r"(?:\d+ lines|\[[^]]*\])$")  # that says less of a file than its other lines
# Where setuptools' finder of an editable package looks for it.
_FINDER = re.compile(r"__editable__\w*_finder\.py: (?:MAPPING|NAMESPACES)\b[^=]*=\s*(?P<value>.+)$")


def left_behind(outcome: Report, witness: TestRecord) -> tuple[str, ...]:
    """What installation steps left, by process 1 and the witness, without tests as the task has them."""
    expected = {f"{path}: written {_digest(file.after)}" for path, file in outcome.files.items()}
    return tuple(dict.fromkeys([*outcome.left, *(entry for entry in witness.written if entry not in expected)]))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16].translate(LETTERS)


def foreign(left: Sequence[str], usual: Sequence[str], reserved: Sequence[str]) -> list[str]:
    """Entries of `left` that are not `usual`; `reserved`: modules that no package may bring."""
    known = {_without_versions(entry) for entry in usual}
    return [entry for entry in left if _without_versions(entry) not in known and not _is_mapping(entry, reserved)]


def findings(entries: Sequence[str]) -> list[str]:
    """Entries in words, one for each file."""
    found: dict[str, str] = {}
    parts = [entry.partition(": ") for entry in entries]
    for path, _, what in sorted(parts, key=lambda part: bool(_GENERIC.match(part[2]))):
        words = f"wrote {path}" if what.startswith("written") else f"left in {path}: {what[:200]}"
        found.setdefault(path, f"an installation step {words}")
    return [*found.values()][:MAX_NAMED]


def _without_versions(entry: str) -> str:
    return _VARIES.sub("#", entry)


def _is_mapping(entry: str, reserved: Sequence[str]) -> bool:
    """Whether an entry only says where packages lie, and names none that would take another one's place."""
    found = _FINDER.search(entry)
    try:
        value = ast.literal_eval(found["value"]) if found else None
    except (ValueError, SyntaxError):
        return False
    return isinstance(value, dict) and not {str(name).partition(".")[0] for name in value} & set(reserved)


class Installations:
    """What installation steps leave with the reference fixes of tasks.

    `run` finds it out for one; None where the fix did not run to its end.
    """

    def __init__(self, run: LeftWithReference, cache: VerdictCache, version: str) -> None:
        self._run, self._cache, self._version = run, cache, version
        self._runs = SharedRuns[tuple[str, ...] | None]()

    async def foreign(self, task: Task, patch: str, verdict: Verdict, reserved: Sequence[str]) -> list[str]:
        """What of a resolved verdict's `left` the reference fix does not explain, in words.

        Nothing for the reference fix itself, and where the task has none that ends. Raises GradingIncomplete.
        """
        left, fix = verdict.report.get("left", []), task.ground_truth.patch
        if not left or not fix.strip() or patch.strip() == fix.strip():
            return []
        usual = await self._usual(task)
        return [] if usual is None else findings(foreign(left, usual, reserved))

    async def _usual(self, task: Task) -> tuple[str, ...] | None:
        truth = task.ground_truth
        parts = ["installation", self._version, task.image, task.base_commit, truth.eval_script, truth.patch]
        key = cache_key([*parts, truth.test_patch])
        return await self._runs.result(key, lambda: self._found(task, key))

    async def _found(self, task: Task, key: str) -> tuple[str, ...] | None:
        known = await asyncio.to_thread(self._cache.calibration, key)
        if known is not None:
            return tuple(known["left"])
        left = await self._run(task)
        if left is not None:
            await asyncio.to_thread(self._cache.keep_calibration, key, {"left": list(left)})
        return left

    async def close(self) -> None:
        """Stop what still runs."""
        await self._runs.close()
