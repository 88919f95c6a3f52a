"""What a test log says: the rules of what passed means, and the eval script that makes the log."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from swerl_agent.grading.eval_script import (
    END,
    EXIT_CODE,
    START,
    instrumented,
    pytest_runs,
    shows_all_runs,
    unittest_runs,
)
from swerl_agent.grading.swebench_report import grade_log
from swerl_agent.tasks.swebench_library import library
from swerl_agent.tasks.task import GENERIC_PARSER, PARSERS

from .graded import A, B, log, task


@pytest.mark.parametrize(
    ("lines", "resolved"),
    [
        ([f"PASSED {A}", f"PASSED {B}"], True),
        ([f"PASSED {A}", f"SKIPPED {B}"], True),
        ([f"SKIPPED {A}", f"PASSED {B}"], False),
        ([f"PASSED {A}"], False),
        ([f"XFAIL {A}", f"PASSED {B}"], True),
        ([f"PASSED {A}", f"FAILED {B} - AssertionError"], False),
        ([f"ERROR {A}", f"PASSED {B}"], False),
        ([], False),
    ],
)
def test_rules_of_swebench_5(lines: list[str], resolved: bool) -> None:
    assert grade_log(task(), log(*lines))["resolved"] is resolved


def test_truncated_id_is_matched_by_its_prefix() -> None:
    shortened = task(fail_to_pass=("t.py::test_x[log(photon",), pass_to_pass=())
    assert grade_log(shortened, log("PASSED t.py::test_x[log(photon)]"))["resolved"]


@pytest.mark.parametrize(
    ("lines", "exit_code"),
    [
        # printed before pytest's own verdict, as captured output is
        ([f"PASSED {A}", f"FAILED {A} - boom", f"PASSED {B}"], 1),
        # printed after it, with something else failing to explain the exit code
        ([f"FAILED {A} - boom", f"PASSED {B}", f"PASSED {A}", "FAILED tests/zzz.py::bogus"], 1),
        # an end marker of one's own, so that the real verdict would fall outside
        (
            [
                f"PASSED {A}",
                f"PASSED {B}",
                "FAILED tests/zzz.py::bogus",
                END,
                f"{EXIT_CODE}: 0",
                f"FAILED {A} - boom",
            ],
            1,
        ),
        # a start marker of one's own after the real verdict
        ([f"FAILED {A} - boom", START, f"PASSED {A}", f"PASSED {B}", "FAILED tests/zzz.py::bogus"], 1),
        # nothing failed, says the log; the exit code disagrees
        ([f"PASSED {A}", f"PASSED {B}"], 1),
    ],
)
def test_forged_result_lines_do_not_score(lines: list[str], exit_code: int) -> None:
    assert not grade_log(task(), log(*lines, exit_code=exit_code))["resolved"]


def test_log_that_ends_before_the_end_marker_does_not_score() -> None:
    truncated_log = log(f"PASSED {A}", f"PASSED {B}").split(END.encode())[0]
    assert not grade_log(task(), truncated_log)["resolved"]


def test_every_repository_has_the_parser_that_swebench_gives_it() -> None:
    _, parsers, _ = library()
    table = parsers.parse_log_pytest.__globals__["MAP_REPO_TO_PARSER_PY"]
    parser_table = {repo: parsers.PARSER_REGISTRY[PARSERS.get(repo, GENERIC_PARSER)] for repo in table}
    assert {repo: parser.__name__ for repo, parser in parser_table.items()} == {
        repo: parser.__name__ for repo, parser in table.items()
    }


SWE_GYM = (
    "getmoto/moto", "python/mypy", "conan-io/conan", "Project-MONAI/MONAI", "modin-project/modin", "iterative/dvc",
    "dask/dask", "bokeh/bokeh", "facebookresearch/hydra", "pydantic/pydantic", "pandas-dev/pandas",
)  # fmt: skip


@pytest.mark.parametrize("repo", SWE_GYM)
def test_repositories_of_swe_gym_have_the_generic_parser(repo: str) -> None:
    assert PARSERS.get(repo, GENERIC_PARSER) == "parse_log_pytest"


def test_output_that_is_no_text_is_graded() -> None:
    noise = log(f"PASSED {A}", "NOISE", f"PASSED {B}").replace(b"NOISE", b"\xff\x00\x1b[1m\xc3")
    assert grade_log(task(), noise)["resolved"]


def run_script(script: str, folder: Path) -> str:
    done = subprocess.run(["bash", "-c", instrumented(script)], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_test_commands_own_status_is_recorded(tmp_path: Path) -> None:
    output = run_script(f"set -uxo pipefail\n: '{START}'\n(exit 3)\n: '{END}'\ntrue\n", tmp_path)
    assert f"{EXIT_CODE}: 3" in output


def test_script_without_markers_is_bracketed(tmp_path: Path) -> None:
    output = run_script("set -e\necho hello\nfalse\necho never", tmp_path)
    assert output.split(START)[1].split(END)[0].strip() == "hello"
    assert f"{EXIT_CODE}: 1" in output


@pytest.mark.parametrize(("second", "resolved"), [("PASSED", True), ("FAILED", False)])
def test_exit_status_of_the_script_decides_nothing(tmp_path: Path, second: str, resolved: bool) -> None:
    tests = f"printf '%s\\n' 'PASSED {A}' '{second} {B}'; (exit {int(not resolved)})"
    output = run_script(f"set -uxo pipefail\n{tests}\ngit --version\n", tmp_path)
    assert f"{EXIT_CODE}: 0" in output
    assert grade_log(task(), output.encode())["resolved"] is resolved


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("pytest -rA tests", 1),
        ("python3 -m pytest -rA tests", 1),
        ("/opt/x/bin/python -W ignore -m pytest tests", 1),
        ("LANG=C pytest tests", 1),
        ("tox --current-env -epy39 -v -- tests", 1),
        ("py.test a\npytest b", 2),
        ("pytest a; LANG=C pytest b && python3 -m pytest c", 3),
        ("./tests/runtests.py --verbosity 2 x", 0),
        ("bin/test -C --verbose x", 0),
        ("pip install pytest", 0),
        ("for file in a.py 'b c.py'; do pytest $file; done", 2),
        ("for file in a b c\ndo\n  LANG=C python3 -m pytest $file || true\ndone\npytest d", 4),
        ("for one in a b; do\n for two in c d; do pytest $one $two; done\ndone", 4),
        ("for file in tests/*.py; do pytest $file; done", 1),
        ("for file in $(ls tests); do pytest $file; done", 1),
        ("for file in a b; do echo $file; done; pytest a b", 1),
        ("if [ -e a ]; then pytest a; else pytest b; fi", 0),  # a key that no run takes would be the patch's
    ],
)
def test_pytest_is_recognised_in_the_test_command(line: str, runs: int) -> None:
    script = f"pip install x\npytest --version\n: '{START}'\n{line}\n: '{END}'\n"
    assert pytest_runs(script) == runs


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("pytest a; make_it=1 pytest b", True),
        ("for file in a b; do pytest $file; done", True),
        ("for file in tests/*.py\ndo\npytest $file\ndone", False),
        ("pytest a\nmake test", False),
        ("while read -r file; do pytest $file; done < files", False),
        ("pytest a; ls tests | xargs -n 1 pytest", False),
        ("find tests -name 't*.py' -exec pytest {} \\;", False),
    ],
)
def test_script_that_may_start_more_runs_than_it_shows_is_recognised(line: str, shown: bool) -> None:
    assert shows_all_runs(f"make install\n: '{START}'\n{line}\n: '{END}'\n") == shown


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 x", 1),
        ("LANG=C python3.8 -W ignore tests/runtests.py x", 1),
        ("python -m unittest -v x", 1),
        ("/opt/x/bin/python3 -Wd -m unittest discover", 1),
        ("python runtests.py", 0),  # of others than Django, which may run anything
        ("python -m pytest tests/runtests.py", 0),
        ("bin/test -C --verbose x", 0),
        ("python -m unittest_of_another", 0),
    ],
)
def test_unittest_is_recognised_in_the_test_command(line: str, runs: int) -> None:
    script = f"./tests/runtests.py --help\n: '{START}'\n{line}\n: '{END}'\n"
    assert unittest_runs(script) == runs
    assert ("/runners:" in instrumented(script)) == bool(runs)
