"""R2E-Gym's columns as SWE-bench's.

Guarantees: the id contains the image's tag; without it, ids of one repository collide. The paths
of tests in the image are recorded: the agent does not see these tests, and grading prefers them to files of the same
name in the work tree. The reference fix has no test files. Tests that exceed R2E-Gym's time limit end as a timeout.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .columns import decoded

TREE = "/testbed"
TESTS = ("r2e_tests", "run_tests.sh")
TEST_SECONDS = 300  # that the tests have in R2E-Gym's own grading
HIDDEN = [f"{folder}/{name}" for folder in ("", "/root", TREE) for name in TESTS]

EVAL_SCRIPT = f"""#!/bin/bash
set -uxo pipefail
cd {TREE}
export PATH={TREE}/.venv/bin:$PATH
for name in {" ".join(TESTS)}; do
  for place in / /root/; do
    [ -e "$place$name" ] || continue
    [ "$place$name" -ef "$name" ] || {{ rm -rf "$name" && ln -s "$place$name" "$name"; }}
    break
  done
done
: '>>>>> Start Test Output'
timeout -k 10 {TEST_SECONDS} bash run_tests.sh
code=$?
: '>>>>> End Test Output'
exit "$code"
"""

_ISSUE = re.compile(r"\[ISSUE\](.*)\[/ISSUE\]", re.DOTALL)
_TEST_FILE = re.compile(r"(^|/)(tests?/|test_[^/]*$|[^/]*_test\.\w+$)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_NEWLINE = "\\ No newline at end of file\n"


def is_r2e(columns: Mapping[str, Any]) -> bool:
    """Whether a row is one of R2E-Gym's."""
    return bool(columns.get("expected_output_json") and columns.get("docker_image"))


def swebench_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The row in SWE-bench's columns; `hidden_paths` and `expected_output_json` are its own.

    Raises ValueError naming the field that cannot be read.
    """
    expected = _object(columns, "expected_output_json")
    commit = _object(columns, "parsed_commit_content") if columns.get("parsed_commit_content") else {}
    outcomes = {_COLOUR.sub("", str(test)).split(" - ")[0]: str(outcome) for test, outcome in expected.items()}
    issue = _ISSUE.search(str(columns.get("problem_statement") or ""))
    before = commit.get("old_commit_hash") or f"{columns.get('commit_hash')}^"
    return {
        "repo": columns.get("repo_name"),
        "eval_script": EVAL_SCRIPT,
        "patch": _patch(commit),
        "base_commit": before if columns.get("commit_hash") or commit else None,
        "FAIL_TO_PASS": [test for test, outcome in outcomes.items() if outcome == "PASSED"],
        "PASS_TO_PASS": [],
        **{key: value for key, value in columns.items() if value and key != "parsed_commit_content"},
        "instance_id": _instance_id(columns),
        "problem_statement": issue[1].strip() if issue else columns.get("problem_statement"),
        "expected_output_json": outcomes,
        "hidden_paths": HIDDEN,
    }


def _instance_id(columns: Mapping[str, Any]) -> str:
    tag = str(columns["docker_image"]).rpartition(":")[2]
    name = str(columns.get("instance_id") or columns.get("repo_name") or "")
    return name if tag in name else f"{name}-{tag}"


def _object(columns: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = decoded(columns, key)
    if not isinstance(value, Mapping):
        raise ValueError(f"field {key} must be an object or its JSON")
    return value


def _patch(commit: Mapping[str, Any]) -> str:
    try:
        return "".join(_file_patches(commit))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"field parsed_commit_content does not hold a commit's files: {error!r}") from error


def _file_patches(commit: Mapping[str, Any]) -> Iterator[str]:
    """Git diffs of the commit's files that are no tests."""
    for change in commit.get("file_diffs") or []:
        path = change["header"]["file"]["path"]
        old, new = change.get("old_file_content") or "", change.get("new_file_content") or ""
        if old != new and not _TEST_FILE.search(path):
            yield f"diff --git a/{path} b/{path}\n" + _mode(old, new) + "".join(_hunks(path, old, new))


def _mode(old: str, new: str) -> str:
    return "new file mode 100644\n" if not old else "deleted file mode 100644\n" if not new else ""


def _hunks(path: str, old: str, new: str) -> Iterator[str]:
    before, after = (f"a/{path}" if old else "/dev/null"), (f"b/{path}" if new else "/dev/null")
    for line in difflib.unified_diff(_lines(old), _lines(new), before, after):
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _lines(text: str) -> list[str]:
    """Lines as git has them: ended by a newline alone."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)
