"""What a patch may touch.

Guarantees: a patch that names git's own files or a path outside the repository is never applied, nor one whose code
asks which test runs, nor one that tells the runner what to load in a file that is left to it (unless the reference fix
does the same). Files that decide how tests run (the task's tests, other existing tests, pytest and interpreter hooks,
test configuration), wherever they lie, are put back to the image's state after the patch, new ones removed; only paths
that the reference fix itself changes are exempt.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from swerl_agent.tasks import Evaluation

from .diffs import added_lines, changed_paths

MAX_PATCH_BYTES = 8 << 20

CONFIGURATION = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml", ".coveragerc",
    "unittest.cfg", "nose2.cfg", "nose.cfg", ".noserc", ".flake8", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml",
)  # fmt: skip
# Bash globs on the path inside the repository; `*` matches `/` too.
PROTECTED = (
    # tests
    "tests/*", "*/tests/*", "test_*.py", "*/test_*.py", "*_test.py",
    # other runners
    "runtests.py", "*/runtests.py", "bin/test", "bin/doctest", "unittest.py", "unittest/*",
    # what an eval script's installation runs before the tests
    "setup.py", "*/setup.py",
    # what else an installation reads, and continuous integration
    "requirements*.txt", "*/requirements*.txt", ".github/*", ".circleci/*", ".gitlab-ci.yml", ".travis.yml",
    # pytest: hooks, plugins by entry point, shadows of its own modules
    "conftest.py", "*/conftest.py", "*.egg-info/*", "*.dist-info/*",
    "pytest.py", "pytest/*", "_pytest/*", "pluggy.py", "pluggy/*", "iniconfig.py", "iniconfig/*",
    # configuration of runners and of coverage (whose plugins are code), also beside tests in a sub-folder
    *(f"{folder}{name}" for folder in ("", "*/") for name in CONFIGURATION),
    # the interpreter's start-up hooks
    "sitecustomize.py", "*/sitecustomize.py", "usercustomize.py", "*/usercustomize.py", "*.pth",
)  # fmt: skip

# Every line from which git or patch takes a file's name.
_HEADER = re.compile(
    r"^(?:diff --git |rename (?:from|to) |copy (?:from|to) |Index: |--- (?=.*\n\+\+\+ )|(?<=\n)\+\+\+ )(.*)$",
    re.MULTILINE,
)
_OUTSIDE = re.compile(r'(?:^|[/ "])(?:\.\.|\.git)(?:/|[\s"]|$)', re.IGNORECASE)
_ABSOLUTE = re.compile(r'^"?/(?!dev/null\b)')
# Names by which code learns of the test that runs; no library needs them to work.
_AWARE = re.compile(r"PYTEST_CURRENT_TEST|PYTEST_VERSION|\b_pytest\b|[\"']pytest[\"'] in (?:sys\.)?modules")
# What makes a runner load code or look elsewhere for tests, in its configuration.
_STEERING = re.compile(
    r"addopts|pytest11|required_plugins|tool:pytest|ini_options|^\s*\[pytest\]|^\s*\"?plugins\b|testpaths|python_files"
)
_GLOB = re.compile(r"([\\*?\[\]()|])")


def forbidden(patch: str) -> str | None:
    """Why `patch` must not be applied at all, or None."""
    size = len(patch.encode("utf-8", "surrogateescape"))
    if size > MAX_PATCH_BYTES:
        return f"the patch has {size} bytes, more than the limit of {MAX_PATCH_BYTES}"
    for header in _HEADER.findall(patch):
        if _OUTSIDE.search(header) or _ABSOLUTE.search(header):
            return f"the patch names a path outside the work tree: {header.strip()[:200]}"
    return None


def steers_the_tests(patch: str, evaluation: Evaluation) -> str | None:
    """Where `patch` asks which test runs, reaches into pytest or tells it what to load, or None.

    Neither counts in files that are put back, nor where the reference fix does the same.
    """
    allowed = {match for _, line in added_lines(evaluation.patch) for match in _AWARE.findall(line)}
    allowed |= {line.strip() for _, line in added_lines(evaluation.patch)}
    protected = re.compile("|".join(fnmatch.translate(glob) for glob in PROTECTED))
    exempt = exempt_paths(evaluation)
    for path, line in added_lines(patch):
        if path not in exempt and protected.match(path):
            continue
        found = _AWARE.search(line) if path.endswith(".py") else None
        found = found or (_STEERING.search(line) if path.rpartition("/")[2] in CONFIGURATION else None)
        if found and found[0] not in allowed and line.strip() not in allowed:
            return f"the patch looks at the test run ({found[0].strip()}) in {path}"
    return None


def protected_globs(evaluation: Evaluation, extra: Sequence[str]) -> list[str]:
    """Globs of files that the patch cannot change."""
    tests = [_GLOB.sub(r"\\\1", path) for path in changed_paths(evaluation.test_patch)]
    return [*PROTECTED, *extra, *tests]


def exempt_paths(evaluation: Evaluation) -> list[str]:
    """Paths that the reference fix changes, unless they are the task's tests."""
    tests = set(changed_paths(evaluation.test_patch))
    return [path for path in changed_paths(evaluation.patch) if path not in tests]
