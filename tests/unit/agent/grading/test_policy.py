"""What a patch may touch."""

from __future__ import annotations

import fnmatch

import pytest
from swerl_agent.grading.policy import (
    MAX_HEADER_CHARACTERS,
    MAX_HEADERS,
    exempt_paths,
    forbidden,
    paths_within,
    protected_globs,
    reserved_names,
    runner_option_change,
    runner_query,
)
from swerl_agent.tasks.diffs import added_lines, changed_paths, named_paths

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
        # of these git makes nothing, but patch(1) does
        "*** a/.git/config\n--- b/.git/config\n@@ -0,0 +1 @@\n+x\n",
        "--- x/.git/config\n@@ -0,0 +1 @@\n+x\n",
        "  --- a/.git/config\n  +++ b/.git/config\n  @@ -0,0 +1 @@\n  +x\n",
        "X--- a/ok.py\nX+++ b/ok.py\nX@@ -0,0 +1 @@\nX+if 'PYTEST_CURRENT_TEST' in env: x\n",
        "\tdiff --git a/x b/y\n\trename from x\n\trename to z\n",
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
        "--- a/d.rst\n+++ b/d.rst\n@@ -1,4 +1,5 @@\n a\n --- a/.git/config\n @@ -1 +1 @@\n b\n+c\n",
    ],
)
def test_ordinary_paths_are_not(patch: str) -> None:
    assert forbidden(patch) is None


def test_tasks_tests_are_protected_and_the_reference_fix_is_exempt() -> None:
    ground_truth = task(
        patch="diff --git a/setup.cfg b/setup.cfg\n--- a/setup.cfg\n+++ b/setup.cfg\n",
        test_patch="diff --git a/spec/check[1].py b/spec/check[1].py\n--- /dev/null\n+++ b/spec/check[1].py\n",
    ).ground_truth
    assert r"spec/check\[1\].py" in protected_globs(ground_truth, [])
    assert "docs/*" in protected_globs(ground_truth, ["docs/*"])
    assert exempt_paths(ground_truth) == ["setup.cfg"]
    assert changed_paths(ground_truth.test_patch) == ["spec/check[1].py"]


def test_tests_that_an_image_holds_are_protected_even_from_the_reference_fix() -> None:
    hidden = paths_within(
        "/testbed/", ["/r2e_tests", "/testbed/r2e_tests", "/testbed/run [1].sh", "/testbed/", "/testbed2/x"]
    )
    assert hidden == ["r2e_tests", "run [1].sh"]
    globs = protected_globs(task().ground_truth, [], hidden)
    assert {"r2e_tests", "r2e_tests/*", r"run \[1\].sh"} <= set(globs)
    fix = added("run [1].sh", "x") + added("r2e_tests/a.py", "x") + added("r2e_tests_too.py", "x")
    assert exempt_paths(task(patch=fix).ground_truth, hidden) == ["r2e_tests_too.py"]


@pytest.mark.parametrize(
    ("patch", "named"),
    [
        ("--- a\n" * (MAX_HEADERS + 1), "lines that name a file"),
        ('--- "' + "\\" * MAX_HEADER_CHARACTERS, "a line of the patch that names a file"),
        ("+\ud83d\n", "a lone surrogate"),
    ],
    ids=["many", "long", "surrogate"],
)
def test_patch_that_takes_long_to_read_or_cannot_be_written_is_blocked(patch: str, named: str) -> None:
    assert named in (forbidden(patch) or "")


def test_patch_with_too_many_paths_is_blocked() -> None:
    patch = "".join(added(f"{number}.py", "x") for number in range(100))
    assert forbidden(patch) is None
    assert "too many paths" in (forbidden(patch, max_named=500) or "")


IMPORT = "from _pytest.compat import getfuncargnames"
READS_TEST_NAME = "name = os.environ['PYTEST_CURRENT_TEST']"


@pytest.mark.parametrize(
    ("path", "line", "repo", "fix", "blocked"),
    [
        ("src/_pytest/fixtures.py", IMPORT, "pytest-dev/pytest", "", False),
        ("src/pytest/__init__.py", IMPORT, "swesmith/pytest-dev__pytest.58e6a09d", "", False),
        ("src/_pytest/runner.py", READS_TEST_NAME, "pytest-dev/pytest", "", False),
        ("src/pytest/__init__.py", READS_TEST_NAME, "pytest-dev/pytest", "", True),
        ("src/_pytest/runner.py", READS_TEST_NAME, "a/fork", "src/_pytest/python.py", False),
        ("_pytest/runner.py", IMPORT, "a/fork", "_pytest/python.py", False),
        ("pytest_mock/plugin.py", IMPORT, "pytest-dev/pytest-mock", "", False),
        ("pytest_mock/_pytest/plugin.py", READS_TEST_NAME, "pytest-dev/pytest-mock", "", True),
        ("pytest_mock/plugin.py", f"{IMPORT}; {READS_TEST_NAME}", "pytest-dev/pytest-mock", "", True),
        ("src/_pytest/fixtures.py", IMPORT, "psf/requests", "", True),
        ("src/_pytest/fixtures.py", READS_TEST_NAME, "psf/requests", "requests/api.py", True),
        ("requests/api.py", IMPORT, "psf/requests", "requests/pytests.py", True),
        ("django/test/runner.py", "from unittest.runner import registerResult", "django/django", "", False),
        ("nose2/result.py", "import unittest", "nose-devs/nose2", "", False),
    ],
)
def test_only_a_patch_to_a_runner_may_use_its_internals(
    path: str, line: str, repo: str, fix: str, blocked: bool
) -> None:
    ground_truth = task(patch=added(fix, "x = 1") if fix else "").ground_truth
    assert bool(runner_query(added(path, line), ground_truth, repo)) is blocked


def test_fix_that_uses_pytest_internals_allows_others_to_use_them() -> None:
    fix = "--- a/h.py\n+++ b/h.py\n@@ -1,2 +1,3 @@\n import _pytest\n x\n+y\n"
    assert runner_query(added("h.py", IMPORT), task(patch=fix).ground_truth) is None
    assert runner_query(added("h.py", READS_TEST_NAME), task(patch=fix).ground_truth)


@pytest.mark.parametrize("name", ["pytest.py", "_pytest/a.py", "pluggy/x.py", "iniconfig.py", "unittest/case.py"])
def test_files_that_shadow_a_runner_are_protected_outside_its_repository(name: str) -> None:
    def protected(fix: str) -> bool:
        globs = protected_globs(task(patch=added(fix, "x")).ground_truth, [])
        return any(fnmatch.fnmatchcase(name, glob) for glob in globs)

    assert protected("a.py")
    assert protected(f"src/{name}")
    assert not protected(f"{name.partition('/')[0].removesuffix('.py')}/other.py")


@pytest.mark.parametrize("name", ["django/core/checks.py", "nose2/result.py", "twisted/trial/runner.py"])
def test_other_runners_code_is_not_protected(name: str) -> None:
    assert not any(fnmatch.fnmatchcase(name, glob) for glob in protected_globs(task().ground_truth, []))


@pytest.mark.parametrize(
    "name",
    [
        "mypy/test/helpers.py", "pkg/_testing/a.py", "testing/x.py", "Makefile", "noxfile.py", "tasks.py",
        "testdata/a.json", "pkg/test_data/a.json", "test-files/a.txt", "unit_tests/a.py", "pkg/__snapshots__/a.snap",
        "testutils.py", "pkg/testhelpers.py", ".gitattributes", "docs/.gitattributes",
    ],
)  # fmt: skip
def test_usual_test_files_are_protected_unless_the_fix_changes_some(name: str) -> None:
    def protected(fix: str) -> bool:
        globs = protected_globs(task(patch=added(fix, "x")).ground_truth, [])
        return any(fnmatch.fnmatchcase(name, glob) for glob in globs)

    assert protected("a.py")
    assert not protected(name)


def test_module_on_the_path_replaces_neither_library_nor_runner() -> None:
    names = reserved_names(task().ground_truth)
    assert {"json", "hmac", "imp", "pytest", "_pytest", "exceptiongroup", "swerl_record", "swerl_paths"} <= set(names)
    assert "pluggy" not in reserved_names(task(patch=added("pluggy/x.py", "x")).ground_truth)


@pytest.mark.parametrize(
    "patch",
    [
        '--- "a/\\056git/config"\n+++ "b/\\056git/config"\n',
        'diff --git "a/x\\057\\056\\056/y" "b/x\\057\\056\\056/y"\n',
        'rename from x\nrename to "\\056GIT/config"\n',
    ],
)
def test_names_are_read_without_their_escapes(patch: str) -> None:
    assert "outside the work tree" in (forbidden(patch) or "")


def test_code_that_asks_for_the_running_test_is_blocked() -> None:
    patch = "diff --git a/c.py b/c.py\n--- a/c.py\n+++ b/c.py\n@@ -1 +1 @@\n-x\n+if 'PYTEST_CURRENT_TEST' in env: x\n"
    assert runner_query(patch, task().ground_truth) == "the patch looks at the test run (PYTEST_CURRENT_TEST) in c.py"
    assert runner_query(patch, task(patch=patch).ground_truth) is None
    assert runner_query(patch.replace("c.py", "tests/conftest.py"), task().ground_truth) is None
    assert runner_query(patch.replace("PYTEST_CURRENT_TEST", "HOME"), task().ground_truth) is None


def test_line_like_a_header_hides_no_code() -> None:
    docstring = '+"""\n+++ b/tests/t.py\n+"""\n+x = "PYTEST_CURRENT_TEST"\n'
    patch = f"diff --git a/c.py b/c.py\n--- a/c.py\n+++ b/c.py\n@@ -0,0 +1,4 @@\n{docstring}"
    assert [path for path, _ in added_lines(patch)] == ["c.py"] * 4
    assert runner_query(patch, task().ground_truth) == "the patch looks at the test run (PYTEST_CURRENT_TEST) in c.py"


FOLDERS = ("", "pkg/", "pkg/deep/")
DECIDING_PATCHES = (
    "conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml", ".coveragerc",
    "sitecustomize.py", "usercustomize.py", "x.pth", "x.egg-info/entry_points.txt", "test_x.py", "x_test.py",
    "x.EGG-INFO/entry_points.txt", "x-1.Dist-Info/entry_points.txt",
    "tests/x.py", ".flake8", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", "requirements.txt",
    "requirements-dev.txt",
)  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", DECIDING_PATCHES)
def test_test_configuration_is_protected_in_every_folder(folder: str, name: str) -> None:
    globs = protected_globs(task().ground_truth, [])
    assert any(fnmatch.fnmatchcase(folder + name, glob) for glob in globs)


@pytest.mark.parametrize(
    "name",
    [".github/workflows/ci.yml", ".circleci/config.yml", ".gitlab-ci.yml", ".travis.yml", "requirements/test.txt"],
)
def test_continuous_integration_and_requirements_are_protected_at_the_top(name: str) -> None:
    assert any(fnmatch.fnmatchcase(name, glob) for glob in protected_globs(task().ground_truth, []))


@pytest.mark.parametrize(
    "name", ["setup_x.py", "pkg/config.py", "pkg/testing.py", "docs/pytest.rst", "src/_pytest/a.py", "testament.py"]
)
def test_ordinary_files_are_not_protected(name: str) -> None:
    assert not any(fnmatch.fnmatchcase(name, glob) for glob in protected_globs(task().ground_truth, []))


def added(path: str, *lines: str) -> str:
    text = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{text}"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("setup.cfg", "addopts = -p cheat"),
        ("pkg/tox.ini", "[pytest]"),
        ("pyproject.toml", "[tool.pytest.ini_options]"),
        ("setup.cfg", "pytest11 ="),
        (".coveragerc", "plugins = cheat"),
    ],
)
def test_settings_that_the_fix_changes_too_may_not_steer_the_runner(path: str, line: str) -> None:
    fix = added(path, "version = 2")
    assert "looks at the test run" in (runner_option_change(added(path, line), task(patch=fix).ground_truth) or "")
    assert runner_option_change(added(path, line), task(patch=added(path, line)).ground_truth) is None
    assert runner_option_change(added(path, line), task().ground_truth) is None, "it is put back"
    assert runner_option_change(added(path, "version = 3"), task(patch=fix).ground_truth) is None


@pytest.mark.parametrize(
    ("patch", "paths"),
    [
        ('diff --git "a/t\\303\\251 \\"x\\".py" "b/t\\303\\251 \\"x\\".py"\nnew file mode 100644\n', ['té "x".py']),
        ("diff --git a/a b.png b/a b.png\nGIT binary patch\nliteral 3\n", ["a b.png"]),
        ("diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n", ["x.py", "y.py"]),
        ("diff --git a/x.sh b/x.sh\nold mode 100644\nnew mode 100755\n", ["x.sh"]),
        ("--- a/x.py\n+++ b/x.py\t2024-01-01\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/z.py\n", ["x.py", "z.py"]),
        ("--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a/no\n+++ b/no\n x\n", ["x.sql"]),
        ("--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", ["x.py"]),
    ],
)
def test_every_way_in_which_git_names_a_file(patch: str, paths: list[str]) -> None:
    assert changed_paths(patch) == paths
    assert set(paths) <= set(named_paths(patch))


@pytest.mark.parametrize(
    "header",
    [
        "+++ b/run it.sh", "+++ b/run it.sh\t2024-01-01", "--- b//run it.sh 2024-01-01 00:00:00", "*** x/./run it.sh",
        'rename to "run it.sh"', "rename from run it.sh", "Index:run it.sh\r", "  --- b/run it.sh",
        "diff --git a/run it.sh b/run it.sh", 'diff --git "a/run it.sh" b/x', "--- /run it.sh", "copy from run it.sh x",
    ],
)  # fmt: skip
def test_every_header_from_which_a_program_may_take_a_name(header: str) -> None:
    assert "run it.sh" in set(named_paths(f"{header}\n"))


def test_no_name_resolves_outside_the_work_tree_or_into_git() -> None:
    headers = [
        "--- ../x",
        "+++ a/../../x",
        "Index: .git/config",
        "rename to a/..",
        'Index: "a/\\000"',
        "--- /etc/x",
        "+++ /",
    ]
    named = set(named_paths("".join(f"{header}\n" for header in headers)))
    assert not [path for path in named if path.startswith(("/", "..", ".git")) or "\0" in path or path in (".", "")]
