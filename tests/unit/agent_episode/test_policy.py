"""What a patch may touch."""

from __future__ import annotations

import pytest
from swerl_agent.grading.policy import aware_of_tests, changed_paths, exempt_paths, forbidden, protected_globs

from .graded import task


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git a/.git/hooks/post-checkout b/.git/hooks/post-checkout\n",
        "diff --git a/x b/x\n--- a/x\n+++ b/../../etc/cron.d/x\n",
        "--- /etc/passwd\n+++ /etc/passwd\n",
        "diff --git a/x b/sub/.git/config\n",
        "Index: .git/config\n",
        'diff --git "a/.git/x y" "b/.git/x y"\n',
        "diff --git a/x b/y\nrename from x\nrename to .git/config\n",
    ],
)
def test_paths_outside_the_work_tree_are_blocked(patch: str) -> None:
    assert forbidden(patch)


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "diff --git a/.github/x.yml b/.github/x.yml\n--- a/.github/x.yml\n+++ b/.github/x.yml\n",
        "diff --git a/.gitignore b/.gitignore\n--- /dev/null\n+++ b/.gitignore\n",
        "diff --git a/q.sql b/q.sql\n--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1 @@\n x\n--- /etc is a comment\n",
        "diff --git a/a..b b/a..b\n",
    ],
)
def test_ordinary_paths_are_not(patch: str) -> None:
    assert forbidden(patch) is None


def test_the_tasks_tests_are_protected_and_the_reference_fix_is_exempt() -> None:
    evaluation = task(
        patch="diff --git a/setup.cfg b/setup.cfg\n--- a/setup.cfg\n+++ b/setup.cfg\n",
        test_patch="diff --git a/spec/check[1].py b/spec/check[1].py\n--- /dev/null\n+++ b/spec/check[1].py\n",
    ).evaluation
    assert r"spec/check\[1\].py" in protected_globs(evaluation, [])
    assert "docs/*" in protected_globs(evaluation, ["docs/*"])
    assert exempt_paths(evaluation) == ["setup.cfg"]
    assert changed_paths(evaluation.test_patch) == ["spec/check[1].py"]


def test_code_that_asks_for_the_running_test_is_blocked() -> None:
    patch = "diff --git a/c.py b/c.py\n--- a/c.py\n+++ b/c.py\n@@ -1 +1 @@\n-x\n+if 'PYTEST_CURRENT_TEST' in env: x\n"
    assert aware_of_tests(patch, task().evaluation) == "the patch looks at the test run (PYTEST_CURRENT_TEST) in c.py"
    assert aware_of_tests(patch, task(patch=patch).evaluation) is None
    assert aware_of_tests(patch.replace("c.py", "tests/conftest.py"), task().evaluation) is None
    assert aware_of_tests(patch.replace("PYTEST_CURRENT_TEST", "HOME"), task().evaluation) is None
