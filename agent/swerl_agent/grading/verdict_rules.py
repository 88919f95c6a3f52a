"""From what a Job reported to the verdict.

Guarantees: a patch is resolved only when its log says so, the witness of the test run (where pytest or unittest runs
the tests) saw every one of the task's tests pass, and nothing was tampered with; what was is named in
`report["tampering"]`. Where nothing but the log speaks (`report["witnessed"]` is false), it must be whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swerl_agent.tasks import Task

from .eval_script import pytest_runs, unittest_runs
from .framing import Report
from .job import Exhausted, Infrastructure, Outcome
from .swebench_report import confirmed, doubly_reported, grade_log
from .test_record import TestRecord, checked_record, shortened, unconfirmed
from .verdict import Status, Verdict

APPLY_LOG_CHARS = 1_000  # of git's output in the detail of a patch that did not apply
TIMEOUT_CODES = (124, 137)  # of timeout(1), for TERM and KILL
STAGES = {
    "no_work_tree": "it has no repository at the work tree",
    "wrong_base": "its repository does not hold the task's base commit",
    "restore_failed": "a protected file that the patch changed could not be put back",
}


def witnessed_sessions(task: Task) -> int:
    """How many test runs of the task's eval script get a witness."""
    script = task.evaluation.eval_script
    return max(1, pytest_runs(script) + unittest_runs(script))


def witnessed_runner(task: Task) -> str:
    """The runner of the task's tests that must have had its witness, '' where it may lack one."""
    script = task.evaluation.eval_script
    return "pytest" if pytest_runs(script) else "unittest" if unittest_runs(script) else ""


def verdict_of(task: Task, outcome: Outcome, failures: int) -> Verdict:
    """The verdict on `outcome`, had after `failures` tries; raises Infrastructure when it says nothing of the patch."""
    if isinstance(outcome, Exhausted):
        return Verdict("unresolved", {"exhausted": outcome.what, "retries": failures}, detail=outcome.message)
    facts = {
        "seconds": round(outcome.seconds, 3),
        "log_bytes": outcome.total_bytes,
        "log_bytes_left_out": outcome.left_out,
        "protected": [note for note in outcome.notes if note != "unshielded"],
        "shielded": "unshielded" not in outcome.notes,
        "scrubbed": outcome.scrubbed,
        "applied": outcome.applied,
        "retries": failures,
    }
    text = outcome.log.decode("utf-8", "replace")
    if outcome.stage == "apply_failed":
        return Verdict("patch_apply_failed", facts, detail=f"git: {text[-APPLY_LOG_CHARS:].strip()}")
    if outcome.stage != "eval":
        raise Infrastructure(f"image {task.image}: {STAGES.get(outcome.stage, outcome.stage)} {text[-300:]}".strip())
    report = grade_log(task, outcome.log) | facts
    if outcome.left_out and not witnessed_runner(task):
        report["resolved"] = False  # failures may lie in the missing middle, and no witness saw the tests pass
    witness = _witness(task, outcome)
    report["witnessed"] = any(session.ended for session in witness.sessions)
    tampering = _tampering(task, report, outcome, witness)
    if tampering:
        report |= {"resolved": False, "tampering": tampering}
    return Verdict(_status(report, outcome), report, detail=_detail(report, outcome))


def _witness(task: Task, outcome: Report) -> TestRecord:
    finished = outcome.exit_code not in TIMEOUT_CODES
    return checked_record(outcome.test_record, outcome.keys, required=witnessed_runner(task), finished=finished)


def _tampering(task: Task, report: Mapping[str, Any], outcome: Report, witness: TestRecord) -> list[str]:
    """What speaks against the log, in words."""
    doubtful = doubly_reported(task, outcome.log)
    double = [f"the log gives both as passed and as failed: {shortened(doubtful)}"] if doubtful else []
    seen = bool(witnessed_runner(task) or witness.sessions)
    forged = _forged(task, report, witness, whole=not outcome.left_out) if seen else []
    return [*witness.alarms, *double, *forged]


def _forged(task: Task, report: Mapping[str, Any], witness: TestRecord, *, whole: bool) -> list[str]:
    """Where log and witness contradict each other; `whole`: nothing of the log was left out."""
    if task.evaluation.eval_type == "fail_only":
        return []
    if witness.log and not report.get("tests_status"):
        return ["the log does not tell of the test run that the witness saw"] if whole else []
    forged = unconfirmed(report, confirmed(task, witness.log))
    return [f"result lines that no test run stands behind: {shortened(forged)}"] if forged else []


def _status(report: Mapping[str, Any], outcome: Report) -> Status:
    if outcome.exit_code in TIMEOUT_CODES and not report["resolved"]:
        return "timeout"
    return "resolved" if report["resolved"] else "unresolved"


def _detail(report: Mapping[str, Any], outcome: Report) -> str:
    if report.get("tampering"):
        return f"tampering: {'; '.join(report['tampering'])}"
    status = report.get("tests_status")
    if outcome.left_out and not report["resolved"]:
        return f"the log was too long: {outcome.left_out} of its {outcome.total_bytes} bytes, its middle, were not read"
    if not status:
        return f"no readable test result; the eval script ended with {outcome.exit_code}"
    counts = [(kind, status[kind]) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    told = [f"{kind} {len(t['success'])}/{len(t['success']) + len(t['failure'])}" for kind, t in counts]
    return ", ".join([*told, *(["by the log alone"] if report["resolved"] and not report["witnessed"] else [])])
