"""From what a Job reported to the verdict.

Guarantees: a patch is resolved only if all of these hold:

* Its log says so.
* Where pytest or unittest runs the tests, the witness of the run saw every test of the task pass.
* Nothing was tampered with; `report["tampering"]` names what was.

Where only the log is evidence (`report["witnessed"]` is false), the log must be complete. What only looks like
tampering is in `report["suspicions"]` until contrast has confirmed or cleared it (`after_contrast`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from swerl_api.isolation import reachability_problem

from swerl_agent.tasks import Task

from .absent_tests import absent_message, absent_tests
from .eval_script import exit_code, pytest_runs, shows_all_runs, unittest_runs
from .framing import Report
from .installation import left_behind
from .job import Infrastructure, LimitExceeded, Outcome
from .swebench_report import confirmed, doubly_reported, grade_log, recorded_statuses, status_of, statuses
from .test_record import TestRecord, checked_record, shortened, unconfirmed
from .verdict import Verdict, VerdictStatus

APPLY_LOG_CHARS = 1_000  # of git's output in the detail of a patch that did not apply
TIMEOUT_CODES = (124, 137)  # of timeout(1), for TERM and KILL
KILLED = {134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV"}  # by exit code of a shell
STAGES = {
    "no_work_tree": "it has no repository at the work tree",
    "wrong_base": "its repository does not hold the task's base commit",
    "restore_failed": "a protected file that the patch changed could not be put back",
}
UNSHIELDED = (
    "it has no setpriv that works, so that code of a patch could read the memory of the process that reports;"
    " add util-linux to the image or set grading.allowUnshielded"
)
UNSEEN = (
    "the log reports tests that no witnessed session ran: {}; if the test command starts several sessions, as `make` or"
    " a loop over a pattern does, write each into the eval script, or a loop over their names"
)
Contrast = Literal["held", "failed", "unavailable", "off"]


def witnessed_sessions(task: Task) -> int:
    """How many test runs of the task's eval script get a witness."""
    script = task.ground_truth.eval_script
    return max(1, pytest_runs(script) + unittest_runs(script))


def witnessed_runner(task: Task) -> str:
    """The runner of the task's tests that must have had its witness, '' where it may lack one."""
    script = task.ground_truth.eval_script
    return "pytest" if pytest_runs(script) else "unittest" if unittest_runs(script) else ""


def _witnessed_throughout(task: Task) -> bool:
    """Whether every test run of the script must have had a witness."""
    return bool(witnessed_runner(task)) and shows_all_runs(task.ground_truth.eval_script)


def verdict_of(task: Task, outcome: Outcome, failures: int, *, allow_unshielded: bool = False) -> Verdict:
    """The verdict of a run after `failures` failed ones; raises Infrastructure when it says nothing of the patch."""
    if isinstance(outcome, LimitExceeded):
        return Verdict("unresolved", {"exhausted": outcome.what, "retries": failures}, detail=outcome.message)
    if outcome.isolation.startswith("reached"):
        raise Infrastructure(f"grading Pod: {reachability_problem(outcome.isolation[8:].replace(', ', chr(10)))}")
    run_fields = _run_fields(outcome, failures)
    text = outcome.log.decode("utf-8", "replace")
    if outcome.stage == "apply_failed":
        return Verdict("patch_apply_failed", run_fields, detail=f"git: {text[-APPLY_LOG_CHARS:].strip()}")
    if outcome.stage == "git_changed":
        return Verdict("policy_blocked", run_fields, detail="the patch changes files of .git")
    if outcome.stage != "eval":
        raise Infrastructure(f"image {task.image}: {STAGES.get(outcome.stage, outcome.stage)} {text[-300:]}".strip())
    if not run_fields["shielded"] and not allow_unshielded:
        raise Infrastructure(f"image {task.image}: {UNSHIELDED}")
    try:
        return _from_log(task, outcome, run_fields)
    except MemoryError:
        raise  # this process's limit, which says nothing of the log
    except Exception as error:  # swebench's parsers raise what they like on output that they do not know
        words = f"the log cannot be read by {task.ground_truth.log_parser}: {type(error).__name__}: {error}"
        return Verdict("unresolved", run_fields | {"resolved": False, "parser_error": True}, detail=words)


def _run_fields(outcome: Report, failures: int) -> dict[str, Any]:
    return {
        "seconds": round(outcome.seconds, 3),
        "log_bytes": outcome.total_bytes,
        "log_bytes_left_out": outcome.left_out,
        "protected": [note for note in outcome.notes if note != "unshielded"],
        "shielded": "unshielded" not in outcome.notes,
        "isolation": outcome.isolation,
        "scrubbed": outcome.scrubbed,
        "applied": outcome.applied,
        "retries": failures,
        "oom_kills": outcome.oom_kills,
        **{name: list(found) for name, found in (("ended", outcome.ended), ("dirty", outcome.dirty)) if found},
    }


def _from_log(task: Task, outcome: Report, run_fields: dict[str, Any]) -> Verdict:
    report = grade_log(task, outcome.log) | run_fields
    if outcome.left_out and not witnessed_runner(task):
        report["resolved"] = False  # failures may lie in the missing middle, and no witness saw the tests pass
    witness = _witness(task, outcome)
    report["witnessed"] = any(run.ended for run in witness.runs)
    ending = _ending(outcome, witness) if witnessed_runner(task) or not report["resolved"] else ""
    tampering = [] if ending else _tampering(task, report, outcome, witness)
    if not ending and (tampering or not report["resolved"]):
        tampering = [*witness.suspicions, *tampering]
    unseen = [] if ending or tampering else _unseen(task, report, witness)
    if tampering or ending or unseen:
        report |= {"resolved": False} | ({"tampering": tampering} if tampering else {})
        ending = ending or (UNSEEN.format(shortened(unseen)) if unseen else "")
    elif witness.suspicions:
        report["suspicions"] = list(witness.suspicions)
    effects_of = {"touched": witness.touched, "changed": witness.changed, "replaced": witness.replaced}
    found = effects_of | {"left": left_behind(outcome, witness)}
    report |= {name: list(names) for name, names in found.items() if names}
    if not report["resolved"] and (absent := absent_tests(task, outcome.log)):
        report["never_appeared"] = absent
    return Verdict(_status(report, outcome), report, detail=_detail(report, outcome, ending))


def after_contrast(
    verdict: Verdict, contrast: Contrast, findings: Sequence[str] = (), why: str = "", left: Sequence[str] = ()
) -> Verdict:
    """A resolved verdict as contrast leaves it; `findings`: what was not as it must be; `why` there was no contrast.

    `left`: findings on what installation steps left behind, where there was none.
    """
    report = {**verdict.report, "contrast": contrast}
    suspicions = report.pop("suspicions", [])
    if contrast in ("unavailable", "off"):
        suspicions = [*suspicions, *(written(path) for path in report.get("touched", [])), *left]
    if contrast == "held":
        return replace(verdict, report=report | ({"cleared": suspicions} if suspicions else {}))
    found = [*(f"contrast: {each}" for each in findings), *suspicions]
    if found:
        report |= {"resolved": False, "tampering": found}
        return replace(verdict, status="unresolved", report=report, detail=f"tampering: {'; '.join(found)}")
    if contrast == "failed":
        report["resolved"] = False
        return replace(verdict, status="unresolved", report=report, detail=f"contrast: {why}")
    detail = verdict.detail if contrast == "off" else f"{verdict.detail}, contrast: unavailable"
    return replace(verdict, report=report | ({"contrast_reason": why} if why else {}), detail=detail)


def written(path: str) -> str:
    """The finding on a file of the tests that the patch's code wrote to."""
    return f"{path} was written to while the tests ran"


def effects(touched: Iterable[str], changed: Iterable[str]) -> tuple[str, ...]:
    """The findings on files of the tests and on functions that tests rely on, by file or by name."""
    return (*map(written, touched), *map(replacement, changed))


def replacement(what: str) -> str:
    """The finding on a function that tests rely on."""
    return f"{what} was replaced in memory while the tests ran"


def side_effects(task: Task, outcome: Outcome) -> tuple[str, ...]:
    """What a run did to the tests' files and to what they rely on, in words, by the witness's record."""
    if isinstance(outcome, LimitExceeded):
        return ()
    witness = _witness(task, outcome)
    return effects(witness.touched, (*witness.changed, *witness.replaced))


def left_with(task: Task, outcome: Outcome) -> tuple[str, ...] | None:
    """What installation steps of a run left behind that its tests run with; None where it did not run to its end."""
    if isinstance(outcome, LimitExceeded) or outcome.stage != "eval" or outcome.exit_code in TIMEOUT_CODES:
        return None
    return left_behind(outcome, _witness(task, outcome))


def outcomes(task: Task, outcome: Outcome, tests: Sequence[str]) -> dict[str, Literal["passed", "failed", "absent"]]:
    """What log and witness of a run report of `tests`; passed: both do, failed: one of them does."""
    if isinstance(outcome, LimitExceeded) or outcome.stage != "eval":
        return dict.fromkeys(tests, "absent")
    try:
        record = _witness(task, outcome)
        found = [statuses(task, outcome.log)]
        if record.log or witnessed_runner(task):
            found.append(recorded_statuses(task, record.log))
    except MemoryError:
        raise
    except Exception:
        return dict.fromkeys(tests, "absent")
    return {test: _seen([status_of(test, each) for each in found]) for test in tests}


def _seen(found: Sequence[str]) -> Literal["passed", "failed", "absent"]:
    if all(status in ("PASSED", "XFAIL") for status in found):
        return "passed"
    return "failed" if any(status in ("FAILED", "ERROR") for status in found) else "absent"


def _witness(task: Task, outcome: Report) -> TestRecord:
    finished = outcome.exit_code not in TIMEOUT_CODES
    return checked_record(outcome.test_record, outcome.keys, required=witnessed_runner(task), finished=finished)


def _ending(outcome: Report, witness: TestRecord) -> str:
    """How a test command was killed before its end, in words; '' where it was not."""
    code = exit_code(outcome.log.decode("utf-8", "replace"))
    if witness.runs and all(run.ended or run.exited for run in witness.runs):
        return ""
    if outcome.oom_kills and code in (None, 1, *KILLED):
        if any(run.results for run in witness.runs):
            return "the tests were killed by signal 9 at the memory limit of the Pod"
        return "killed by signal 9 at the memory limit of the Pod before any test began: too little memory"
    return f"the tests were killed by {KILLED[code]}" if code in KILLED else ""


def _tampering(task: Task, report: Mapping[str, Any], outcome: Report, witness: TestRecord) -> list[str]:
    """Evidence against the log, in words."""
    seen = bool(witnessed_runner(task) or witness.runs)
    ambiguous = [test for test in doubly_reported(task, outcome.log) if not (seen and _two_tests(test, task, witness))]
    double = [f"the log gives both as passed and as failed: {shortened(ambiguous)}"] if ambiguous else []
    forged = _forged(task, report, witness, whole=not outcome.left_out) if seen else []
    early = ["code of the patch announced the start of the tests"] if outcome.test_starts > 1 else []
    return [*witness.violations, *early, *double, *forged]


def _two_tests(test: str, task: Task, witness: TestRecord) -> bool:
    """Whether a parser cuts the names of two tests, which the witness saw end differently, to the one name `test`."""
    found = {status_of(test, recorded_statuses(task, line)) for line in witness.log.splitlines()}
    return {"PASSED", "FAILED"} <= found


def _forged(task: Task, report: Mapping[str, Any], witness: TestRecord, *, whole: bool) -> list[str]:
    """Where log and witness contradict each other; `whole`: nothing of the log was left out."""
    if witness.log and not report.get("tests_status"):
        return ["the log does not report the test run that the witness saw"] if whole else []
    forged = _contradicted(task, report, witness)
    if not _witnessed_throughout(task):
        forged = [test for test in forged if status_of(test, recorded_statuses(task, witness.log))]
    return [f"result lines without a test run: {shortened(forged)}"] if forged else []


def _contradicted(task: Task, report: Mapping[str, Any], witness: TestRecord) -> list[str]:
    """Tests that count as passed by the log and not by the witness."""
    if task.ground_truth.eval_type == "fail_only":
        return _unrecorded_failures(task, report, recorded_statuses(task, witness.log))
    return unconfirmed(report, confirmed(task, witness.log))


def _unseen(task: Task, report: Mapping[str, Any], witness: TestRecord) -> list[str]:
    """Tests that passed by the log alone, although a witness saw others: of a runner that starts more sessions than the
    script shows only the first have keys, which is no sign of tampering."""
    if _witnessed_throughout(task) or not witness.runs or not report.get("resolved"):
        return []
    return _contradicted(task, report, witness)


def _unrecorded_failures(task: Task, report: Mapping[str, Any], seen: dict[str, str]) -> list[str]:
    """Tests that count as passed, as the log does not report their failure, although the witness saw none or worse."""
    status = report.get("tests_status") or {}
    named = [test for kind in status.values() for test in kind.get("success", [])]
    failed = [test for test in named if status_of(test, seen) in ("FAILED", "ERROR")]
    return failed + [test for test in task.ground_truth.fail_to_pass if test in named and not status_of(test, seen)]


def _status(report: Mapping[str, Any], outcome: Report) -> VerdictStatus:
    if outcome.exit_code in TIMEOUT_CODES and not report["resolved"]:
        return "timeout"
    return "resolved" if report["resolved"] else "unresolved"


def _detail(report: Mapping[str, Any], outcome: Report, ending: str) -> str:
    if report.get("tampering"):
        return f"tampering: {'; '.join(report['tampering'])}"
    status = report.get("tests_status")
    if outcome.left_out and not report["resolved"]:
        return f"the log was too long: {outcome.left_out} of its {outcome.total_bytes} bytes, its middle, were not read"
    if ending:
        return ending
    if not status:
        return f"no readable test result; the eval script ended with {outcome.exit_code}"
    alone = "by the log alone" if report["resolved"] and not report["witnessed"] else ""
    return ", ".join(filter(None, [tests_in_words(report), alone]))


def tests_in_words(report: Mapping[str, Any]) -> str:
    """How many of the task's tests passed, and which never ran; '' for a log without results."""
    status = report.get("tests_status") or {}
    counts = [(kind, status[kind]) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") if kind in status]
    parts = [f"{kind} {len(t['success'])}/{len(t['success']) + len(t['failure'])}" for kind, t in counts]
    return ", ".join(filter(None, [*parts, absent_message(report.get("never_appeared") or {})]))
