"""What the witness of a test run says beside the log, and what that makes of the verdict."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.eval_script import END as MARKED_END
from swerl_agent.grading.eval_script import START
from swerl_agent.grading.framing import Report
from swerl_agent.grading.job import Infrastructure
from swerl_agent.grading.verdict_rules import verdict_of

from .graded import A, B, log, task

KEY = "5e1ec7ed-89ab-cdef-0123-456789abcdef"


def signed(*contents: list[object], key: str = KEY) -> bytes:
    lines = []
    for number, content in enumerate(contents):
        text = json.dumps(content)
        sign = hmac.new(key.encode(), f"{number} {text}".encode(), hashlib.sha256).hexdigest()
        lines.append(f"0 {number} {sign} {text}\n")
    return "".join(lines).encode()


HELLO: list[object] = ["hello", {}]
END: list[object] = ["end", 0]


def reported(content: bytes, lines: bytes, exit_code: int = 0) -> Report:
    return Report("eval", exit_code, 1.0, len(lines), lines, (), (KEY,), content)


PASSING = log(f"PASSED {A}", f"PASSED {B}")
SEEN: list[list[object]] = [HELLO, ["result", A, "PASSED"], ["result", B, "PASSED"], END]


def verdict(*contents: list[object], key: str = KEY, exit_code: int = 0) -> Verdict:
    witnessed_task = task(eval_script=f"set -x\n: '{START}'\npython3 -m pytest -rA tests\n: '{MARKED_END}'\n")
    return verdict_of(witnessed_task, reported(signed(*contents, key=key), PASSING, exit_code), 0)


def test_test_that_the_witness_saw_too_is_resolved() -> None:
    assert verdict(*SEEN).resolved


@pytest.mark.parametrize(
    ("contents", "named"),
    [
        ([], "pytest was run without its witness"),
        ([HELLO], "cut short"),
        (SEEN[:-1], "cut short"),
        ([HELLO, ["result", A, "PASSED"], END], f"without a test run: {B}"),
        ([*SEEN[:-1], ["result", A, "FAILED"], END], f"without a test run: {A}"),
        ([*SEEN[:-1], ["alarm", "calc.py replaced Function.runtest"], END], "calc.py replaced Function.runtest"),
    ],
)
def test_unobserved_test_is_named_and_not_resolved(contents: list[list[object]], named: str) -> None:
    found = verdict(*contents)
    assert found.status == "unresolved"
    assert named in found.detail
    assert found.report["tampering"]


@pytest.mark.parametrize("command", ["make test", "for file in tests/*.py\ndo\npytest $file\ndone"])
@pytest.mark.parametrize(
    ("status", "named", "tampering"),
    [(None, f"no witnessed session ran: {B};", False), ("FAILED", f"result lines without a test run: {B}", True)],
)
def test_test_of_a_session_without_a_key_is_no_tampering(
    command: str, status: str | None, named: str, tampering: bool
) -> None:
    others: list[list[object]] = [["result", B, status]] if status else []
    contents = signed(HELLO, ["result", A, "PASSED"], *others, END)
    found = verdict_of(task(eval_script=f"{command}\n"), reported(contents, PASSING), 0)
    assert found.status == "unresolved" and named in found.detail
    assert bool(found.report.get("tampering")) == tampering


def test_unsigned_lines_are_named() -> None:
    assert "did not sign" in verdict(*SEEN, key="another").detail


def test_lines_that_were_taken_out_are_named() -> None:
    pytest_task = task(eval_script="pytest\n")
    report_without_second_line = b"".join(
        signed(*SEEN).splitlines(keepends=True)[:1] + signed(*SEEN).splitlines(keepends=True)[2:]
    )
    assert "did not sign" in verdict_of(pytest_task, reported(report_without_second_line, PASSING), 0).detail


def test_session_that_the_time_limit_ended_is_a_timeout() -> None:
    found = verdict(*SEEN[:-1], exit_code=124)
    assert (found.status, "tampering" in found.report) == ("timeout", True)


@pytest.mark.parametrize("lines", [log(f"FAILED {A}"), PASSING])
def test_truncated_log_alone_resolves_nothing(lines: bytes) -> None:
    with_large_log = replace(reported(b"", lines), total_bytes=40 << 20)
    found = verdict_of(task(eval_script="bin/test"), with_large_log, 0)
    assert found.status == "unresolved"
    assert "too long" in found.detail and found.report["log_bytes_left_out"] == 8 << 20


def test_log_without_its_middle_counts_if_the_witness_saw_every_test() -> None:
    with_large_log = replace(reported(signed(*SEEN), PASSING), total_bytes=40 << 20)
    assert verdict_of(task(eval_script="pytest"), with_large_log, 0).resolved


def test_runner_without_witness_resolves_by_its_log_and_the_verdict_reports_it() -> None:
    found = verdict_of(task(eval_script="bin/test"), reported(b"", PASSING), 0)
    assert (found.resolved, found.report["witnessed"]) == (True, False)
    assert found.detail.endswith("by the log alone")
    verdict = verdict_of(task(eval_script="bin/test"), reported(signed(*SEEN), PASSING), 0)
    assert (verdict.report["witnessed"], verdict.detail) == (True, "FAIL_TO_PASS 1/1, PASS_TO_PASS 1/1")


DJANGO = {"eval_script": "./tests/runtests.py --parallel 1 a", "log_parser": "parse_log_django"}
RUN: list[object] = ["begin"]
ONE: list[object] = ["result", "m.C.test_a", "PASSED", "test_a (m.C)"]
TWO: list[object] = ["result", "m.C.test_b", "PASSED", "What a docstring says."]


def test_test_name_after_other_output_is_recognised() -> None:
    name = "  Applying sites.0002_alter_domain_unique...test_a (m.C)".strip()
    lines = log(f"{name} ... ok", "Clontest_b (m.C) ... ok")
    two: list[object] = ["result", "m.C.test_b", "PASSED", "test_b (m.C)"]
    for contents, resolved in (([HELLO, RUN, ONE, two, END], True), ([HELLO, RUN, two, END], False)):
        assert (
            verdict_of(task((name,), ("Clontest_b (m.C)",), **DJANGO), reported(signed(*contents), lines), 0).resolved
            is resolved
        )


@pytest.mark.parametrize(
    ("contents", "named"),
    [
        ([HELLO, RUN, ONE, TWO, END], ""),
        ([], "unittest was run without its witness"),
        ([HELLO, RUN, ONE, TWO], "cut short"),
        ([HELLO, RUN, ONE, TWO, END, RUN], "cut short"),
        ([HELLO, RUN, ONE, END], "without a test run: What a docstring says."),
        ([HELLO, RUN, ONE, [*TWO[:2], "FAILED", TWO[3]], END], "without a test run: What a docstring says."),
        (
            [HELLO, RUN, ONE, TWO, ["result", "m.C.test_a", "ERROR", "test_a (m.C)"], END],
            "without a test run: test_a (m.C)",
        ),
    ],
)
def test_unittest_outcome_counts_if_the_witness_saw_it(contents: list[list[object]], named: str) -> None:
    lines = log("test_a (m.C) ... ok", "test_b (m.C)", "What a docstring says. ... ok")
    found = verdict_of(
        task(("test_a (m.C)",), ("What a docstring says.",), **DJANGO), reported(signed(*contents), lines), 0
    )
    assert found.resolved is not bool(named)
    assert named in found.detail


PYTEST = "set -x\npython3 -m pytest -rA tests\n"


@pytest.mark.parametrize(
    ("status", "resolved", "named"),
    [
        ("PASSED", True, ""),
        (None, False, f"without a test run: {A}"),
        ("FAILED", False, f"without a test run: {A}"),
    ],
)
def test_fail_only_test_counts_if_the_witness_saw_it_and_no_failure(
    status: str | None, resolved: bool, named: str
) -> None:
    results: list[list[object]] = [["result", A, status]] if status else []
    contents = signed(HELLO, *results, ["result", B, "PASSED"], END)
    found = verdict_of(task(eval_script=PYTEST, eval_type="fail_only"), reported(contents, PASSING), 0)
    assert (found.resolved, named in found.detail) == (resolved, True), found
    assert bool(found.report.get("tampering")) is not resolved


def test_patch_that_changed_files_of_git_is_blocked_and_says_so() -> None:
    changed = replace(reported(signed(*SEEN), PASSING), stage="git_changed")
    found = verdict_of(task(eval_script=PYTEST), changed, 0)
    assert (found.status, found.detail) == ("policy_blocked", "the patch changes files of .git")
    assert not found.resolved


def test_unshielded_pod_has_no_verdict_unless_it_is_allowed() -> None:
    unshielded = replace(reported(signed(*SEEN), PASSING), notes=("unshielded",))
    pytest_task = task(eval_script=PYTEST)
    with pytest.raises(Infrastructure, match=r"grading\.allowUnshielded"):
        verdict_of(pytest_task, unshielded, 0)
    found = verdict_of(pytest_task, unshielded, 0, allow_unshielded=True)
    assert (found.resolved, found.report["shielded"]) == (True, False)


@pytest.mark.parametrize(
    ("contents", "exit_code", "oom_kills", "words"),
    [
        (SEEN[:2], 139, 0, "the tests were killed by SIGSEGV"),
        (SEEN[:1], 137, 1, "before any test began: too little memory"),
        (SEEN[:2], 137, 1, "the tests were killed by signal 9 at the memory limit of the Pod"),
    ],
)
def test_killed_tests_are_unresolved_without_tampering(
    contents: list[list[object]], exit_code: int, oom_kills: int, words: str
) -> None:
    cut = replace(reported(signed(*contents), log(exit_code=exit_code)), oom_kills=oom_kills)
    found = verdict_of(task(eval_script=PYTEST), cut, 0)
    assert found.status == "unresolved" and words in found.detail, found
    assert "tampering" not in found.report


def test_two_tests_that_a_parser_gives_one_name_are_no_tampering() -> None:
    cut, passes, fails = f"{A}[a", f"{A}[a b]", f"{A}[a c]"
    contents = signed(HELLO, ["result", passes, "PASSED"], ["result", fails, "FAILED"], END)
    lines = log(f"PASSED {passes}", f"FAILED {fails}", exit_code=1)
    found = verdict_of(task((cut,), (), eval_script=PYTEST), reported(contents, lines), 0)
    assert (found.status, found.detail) == ("unresolved", "FAIL_TO_PASS 0/1, PASS_TO_PASS 0/0"), found
    assert "tampering" not in found.report
