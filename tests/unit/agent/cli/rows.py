"""A task's row, complete, for commands that read tasks."""

from __future__ import annotations

from typing import Any

ROW: dict[str, Any] = {
    "instance_id": "kit__kit-1",
    "repo": "kit/kit",
    "base_commit": "a" * 40,
    "problem_statement": "It breaks.",
    "patch": "diff --git a/x b/x\n",
    "test_patch": "",
    "eval_script": "true",
    "FAIL_TO_PASS": ["t::a"],
    "PASS_TO_PASS": ["t::b", "t::c"],
    "image": "swe-rl/task-kit:1",
}
