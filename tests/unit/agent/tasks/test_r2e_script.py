"""The script that grades a task of R2E-Gym, run: its exit code is the tests' own, or timeout(1)'s."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from swerl_agent.grading.verdict_rules import TIMEOUT_CODES
from swerl_agent.tasks.r2e import EVAL_SCRIPT, TEST_SECONDS, TREE


def code_of(tests: str, folder: Path, seconds: str = str(TEST_SECONDS)) -> int:
    """Exit code of the script where `tests` is what the image's run_tests.sh does."""
    (folder / "run_tests.sh").write_text(tests)
    limit = f"timeout -k 10 {TEST_SECONDS} "
    assert limit in EVAL_SCRIPT
    script = EVAL_SCRIPT.replace(TREE, str(folder)).replace(limit, f"timeout -k 1 {seconds} ")
    return subprocess.run(["bash", "-c", script], capture_output=True, timeout=60).returncode


@pytest.mark.parametrize("code", [0, 1])
def test_tests_own_code_is_the_scripts(code: int, tmp_path: Path) -> None:
    assert code_of(f"exit {code}", tmp_path) == code


@pytest.mark.parametrize("tests", ["exec sleep 100", "trap '' TERM; while :; do sleep 0.1; done"])
def test_tests_that_take_too_long_are_a_timeout(tests: str, tmp_path: Path) -> None:
    assert code_of(tests, tmp_path, "0.3") in TIMEOUT_CODES
