"""The altered runs of tasks: calibrated once per task, made for each patch that passes.

Guarantees: the reference fix is run with all alterations once per task and image, however many patches wait for it;
where a limit left nothing of that run, it is made again for a later patch. An outcome that must fail and passes decides
at once, any other that is not as expected has to be so twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from swerl_agent.tasks import Task
from swerl_agent.tasks.diffs import changed_paths

from .cache import VerdictCache, cache_key, criteria
from .calibration import Calibration
from .contrast import (
    AlteredRun,
    Expectation,
    SeenOutcome,
    TestFiles,
    broken,
    calibrated,
    calibrating,
    contrasting,
)
from .framing import Report
from .installation import Installations
from .job import LimitExceeded, Outcome
from .log_reader import LogReader, Unreadable
from .policy import reserved_names, unprotected_paths
from .shared_runs import SharedRuns
from .test_record import shortened
from .verdict import GradingIncomplete, Verdict
from .verdict_rules import TIMEOUT_CODES, after_contrast, effects, left_with, outcomes, replacement, side_effects

RETRIES = 1  # of altered runs; after them an outcome that is not as expected counts
Execute = Callable[[Task, str, AlteredRun | None], Awaitable[Outcome]]


class ContrastRuns:
    """Contrast for one Grader; `execute` runs a patch of a task with altered tests, or as it is."""

    def __init__(self, execute: Execute, logs: LogReader, cache: VerdictCache, version: str) -> None:
        self._execute, self._logs, self._cache, self._version = execute, logs, cache, version
        self._calibrations = SharedRuns[Calibration](lambda found: not found.limited)
        self._installations = Installations(self._left_with_reference, cache, version)

    async def passed_over(self, task: Task, patch: str, verdict: Verdict) -> Verdict:
        """A resolved verdict where contrast is off."""
        return after_contrast(verdict, "off", left=await self._left(task, patch, verdict))

    async def _left(self, task: Task, patch: str, verdict: Verdict) -> list[str]:
        return await self._installations.foreign(task, patch, verdict, reserved_names(task.ground_truth))

    async def _left_with_reference(self, task: Task) -> tuple[str, ...] | None:
        try:
            return await self._logs.call(left_with, task, await self._reference_outcome(task, None))
        except Unreadable:
            return None

    async def confirmed(self, task: Task, patch: str, verdict: Verdict, report: Report) -> Verdict:
        """A resolved verdict after contrast."""
        files = await asyncio.to_thread(TestFiles, task, report.files)
        calibration = await self._calibration(task, files, report.seconds)
        usable = _unpatched(calibration, files, unprotected_paths(patch, task.ground_truth))
        rng = random.SystemRandom()
        fixed = changed_paths(task.ground_truth.patch)  # calibration did not watch these: they were files of its patch
        missed: list[tuple[Expectation, SeenOutcome]] = []
        unread = ""
        spent = 0.0  # seconds of the tests' own
        for _ in range(1 + RETRIES):
            run = await asyncio.to_thread(contrasting, files, usable, rng)
            if run is None:
                left = await self._left(task, patch, verdict)
                verdict = after_contrast(verdict, "unavailable", why=_reason(files, calibration, usable), left=left)
                return replace(verdict, report=verdict.report | ({"limited": True} if calibration.limited else {}))
            outcome = await self._execute(task, patch, run)
            spent += outcome.seconds if isinstance(outcome, Report) else 0.0
            verdict = replace(verdict, report={**verdict.report, "contrast_seconds": round(spent, 3)})
            missed, unread = await self._missed(task, outcome, run)
            if not missed:
                return _without_foreign_effects(verdict, calibration, fixed)
            if _decided(missed):
                break
        if limited := _limited(verdict, outcome, missed, unread):
            return limited
        findings = [each.violation for each, seen in missed if seen != "absent"]
        why = "a run with altered tests did not report " + ", ".join(each.target for each, _ in missed)
        return after_contrast(verdict, "failed", list(dict.fromkeys(findings)), why)

    async def _missed(
        self, task: Task, outcome: Outcome, run: AlteredRun
    ) -> tuple[list[tuple[Expectation, SeenOutcome]], str]:
        """What is not as expected, and why the log could not be read, '' where it could."""
        found, unread = await self._outcomes(task, outcome, run)
        return [(each, found[each.test_id]) for each in broken(run, found.__getitem__)], unread

    async def _outcomes(self, task: Task, outcome: Outcome, run: AlteredRun) -> tuple[Mapping[str, SeenOutcome], str]:
        tests = [each.test_id for each in run.expected]
        try:
            return await self._logs.call(outcomes, task, outcome, tests), ""
        except Unreadable as error:
            return dict.fromkeys(tests, "absent"), str(error)

    async def _calibration(self, task: Task, files: TestFiles, seconds: float) -> Calibration:
        key = cache_key([self._version, task.image, task.base_commit, *criteria(task.ground_truth), *_content(files)])
        return await self._calibrations.result(key, lambda: self._calibrated(task, files, key, seconds))

    async def _calibrated(self, task: Task, files: TestFiles, key: str, seconds: float) -> Calibration:
        """By the reference fix; `seconds`: what the tests took without alterations."""
        known = await asyncio.to_thread(self._cache.calibration, key)
        if known is not None:
            return Calibration.from_json(known)
        calibration, values, limit = Calibration({}), True, ""
        for _ in range(1 + RETRIES):
            run = await asyncio.to_thread(calibrating, files, random.SystemRandom(), values=values)
            if run is None:
                break
            outcome = await self._reference_outcome(task, run)
            values = not (isinstance(outcome, Report) and outcome.exit_code in TIMEOUT_CODES)  # a test may wait for one
            found, unread = await self._outcomes(task, outcome, run)
            limit = unread or _limit(outcome)
            caused = await asyncio.to_thread(side_effects, task, outcome)
            longer = outcome.seconds - seconds if isinstance(outcome, Report) else 0.0
            calibration = calibrated(run, found.__getitem__, caused, longer=longer, run_seconds=seconds)
            if calibration.available:
                await asyncio.to_thread(self._cache.keep_calibration, key, calibration.as_json())
                return calibration
        return replace(calibration, limited=limit)

    async def _reference_outcome(self, task: Task, run: AlteredRun | None) -> Outcome:
        try:
            return await self._execute(task, task.ground_truth.patch, run)
        except GradingIncomplete as error:  # it says nothing about the patch that is graded
            detail = f"the reference fix: {error.verdict.detail}"
            raise GradingIncomplete(replace(error.verdict, status="infra_error", detail=detail)) from error

    async def close(self) -> None:
        """Stop what still runs."""
        await self._installations.close()
        await self._calibrations.close()


def _content(files: TestFiles) -> list[str]:
    ground_truth = files.ground_truth
    return [
        ground_truth.eval_script,
        ground_truth.patch,
        *(part for item in sorted(files.texts.items()) for part in item),
    ]


def _unpatched(calibration: Calibration, files: TestFiles, changed: Collection[str]) -> Calibration:
    """Without tests in files that the patch changed: an altered file in their place would undo the change."""
    targets = {**files.targets, **files.kept}
    usable = {test: found for test, found in calibration.usable.items() if targets[test].path not in changed}
    return replace(calibration, usable=usable)


def _decided(missed: Sequence[tuple[Expectation, SeenOutcome]]) -> bool:
    return any(seen == "passed" for _, seen in missed)


def _without_foreign_effects(verdict: Verdict, calibration: Calibration, fixed: Sequence[str]) -> Verdict:
    """The verdict on a patch whose altered run went as it must, by what its first run did besides.

    `fixed`: files of the reference fix. A replaced function of the standard library proves nothing either way.
    """
    report = verdict.report
    changed = [what for what in report.get("changed", []) if what not in fixed]
    found = effects(report.get("touched", []), changed)
    foreign = [each for each in found if each not in calibration.side_effects]
    replaced = [each for each in map(replacement, report.get("replaced", [])) if each not in calibration.side_effects]
    if foreign or not replaced:
        return after_contrast(verdict, "failed" if foreign else "held", foreign)
    why = f"{shortened(replaced)}; tests rely on it, and nothing shows that they would pass without"
    return after_contrast(verdict, "failed", why=why)


def _limit(outcome: Outcome) -> str:
    """Which limit of time, memory or storage ended a run, in words; '' for none."""
    if isinstance(outcome, LimitExceeded):
        return outcome.message
    if outcome.exit_code in TIMEOUT_CODES:
        return "it took too long"
    return "processes were killed at the memory limit of the Pod" if outcome.oom_kills else ""


def _limited(
    verdict: Verdict, outcome: Outcome, missed: Sequence[tuple[Expectation, SeenOutcome]], unread: str
) -> Verdict | None:
    """The verdict where a limit of time, memory or storage ended the run with altered tests, which is not kept.

    `unread`: why its log could not be read, '' where it could.
    """
    report = {**verdict.report, "contrast": "failed", "resolved": False}
    if isinstance(outcome, LimitExceeded):
        report["exhausted"] = outcome.what
        return replace(verdict, status="unresolved", report=report, detail=outcome.message)
    if outcome.exit_code in TIMEOUT_CODES and not _decided(missed):
        return replace(verdict, status="timeout", report=report, detail="the run with altered tests took too long")
    if (why := unread or _limit(outcome)) and not _decided(missed):
        report["limited"] = True
        return replace(verdict, status="unresolved", report=report, detail=f"the run with altered tests: {why}")
    return None


def _reason(files: TestFiles, calibration: Calibration, usable: Calibration) -> str:
    """Why there is no altered run; `usable`: the calibration without files that the patch changed."""
    if files.fixed and not files.targets:
        return f"the reference fix changes {files.fixed[0]}, in which tests of FAIL_TO_PASS are"
    if not files.targets:
        return "the files of the task's tests contain no test of FAIL_TO_PASS"
    if calibration.limited:
        return f"the reference fix with altered tests: {calibration.limited}"
    if not any(calibration.usable.get(test) for test in files.targets):
        return "no alteration of the tests has the expected outcome under the reference fix"
    if not any(usable.usable.get(test) for test in files.targets):
        return "the patch changes the files of the tests of FAIL_TO_PASS"
    return "the altered tests cannot be put into the task's script"
