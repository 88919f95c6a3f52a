"""A task to grade, and the log of its tests."""

from __future__ import annotations

from typing import Any

from swerl_agent.grading.eval_script import END, EXIT_CODE, START
from swerl_agent.tasks import GroundTruth, Task

A, B = "tests/t.py::test_a", "tests/t.py::test_b"


def task(fail_to_pass: tuple[str, ...] = (A,), pass_to_pass: tuple[str, ...] = (B,), **changes: Any) -> Task:
    ground_truth = GroundTruth(
        **{"eval_script": "true", "patch": "", "test_patch": "", **changes},
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
    )
    return Task("o__r-1", "o/r", "0" * 40, "1", "text", "image", ground_truth)


def log(*lines: str, exit_code: int | None = 0) -> bytes:
    code = [] if exit_code is None else [f"{EXIT_CODE}: {exit_code}"]
    return "\n".join(["+ git apply", f"+ : '{START}'", *lines, f"+ : '{END}'", *code, ""]).encode()
