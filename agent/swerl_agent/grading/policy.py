"""What a patch may touch.

Guarantees: a patch that names git's own files or a path outside the repository is never applied, nor one with an
indented diff, which patch(1) alone reads, nor one whose code asks which test runs or reaches into pytest (unless the
repository is pytest's or works with its inside), nor one that tells the runner what to load in a file that is left to
it (unless the reference fix does the same). Files that decide how tests run (the task's tests, other existing tests,
pytest and interpreter hooks, test configuration), wherever they lie, are put back to the image's state after the patch,
new ones removed; only paths that the reference fix itself changes are exempt.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence
from itertools import chain

from swerl_agent.tasks import Evaluation

from .diffs import added_lines, changed_paths, headers, is_indented, named_paths

MAX_PATCH_BYTES = 8 << 20
MAX_NAMED_CHARACTERS = 2 * MAX_PATCH_BYTES  # of all paths that a patch may mean; they travel with it

CONFIGURATION = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml", ".coveragerc",
    "unittest.cfg", "nose2.cfg", "nose.cfg", ".noserc", ".flake8", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml",
)  # fmt: skip
# Bash globs on the path inside the repository; `*` matches `/` too.
PROTECTED = (
    # tests
    "tests/*", "*/tests/*", "test_*.py", "*/test_*.py", "*_test.py",
    # other runners
    "runtests.py", "*/runtests.py", "bin/test", "bin/doctest",
    # the programs of an environment in the repository
    ".venv/*",
    # what an eval script's installation runs before the tests
    "setup.py", "*/setup.py",
    # what else an installation reads, and continuous integration
    "requirements*.txt", "*/requirements*.txt", ".github/*", ".circleci/*", ".gitlab-ci.yml", ".travis.yml",
    # pytest: hooks, plugins by entry point
    "conftest.py", "*/conftest.py", "*.egg-info/*", "*.dist-info/*",
    # configuration of runners and of coverage (whose plugins are code), also beside tests in a sub-folder
    *(f"{folder}{name}" for folder in ("", "*/") for name in CONFIGURATION),
    # the interpreter's start-up hooks
    "sitecustomize.py", "*/sitecustomize.py", "usercustomize.py", "*/usercustomize.py", "*.pth",
)  # fmt: skip
# Modules at the top that would shadow a runner's own, by the project that they are of: there they are the code to fix.
RUNNERS = (("pytest", "_pytest"), ("pluggy",), ("iniconfig",), ("unittest",))

# Lines from which git or patch takes a file's name, also where a hunk's counts claim them for its content: counts may
# lie, so these are looked for everywhere, and by marks that honest content hardly has. `headers` tells of all others.
_HEADER = re.compile(
    r"^(?:diff --git |rename (?:from|to) |copy (?:from|to) |Index: |--- (?=.*\n\+\+\+ )|(?<=\n)\+\+\+ )(.*)$",
    re.MULTILINE,
)
_OUTSIDE = re.compile(r'(?:^|[/ "])(?:\.\.|\.git)(?:/|[\s"]|$)', re.IGNORECASE)
_ABSOLUTE = re.compile(r'^"?/(?!dev/null\b)')
# Names by which code learns of the test that runs; no library needs them to work.
_AWARE = re.compile(r"PYTEST_CURRENT_TEST|PYTEST_VERSION|\b_pytest\b|[\"']pytest[\"'] in (?:sys\.)?modules")
_INSIDE = re.compile(r"\b_pytest\b")
_IN_PYTEST = re.compile(r"(?:.*/)?_pytest/")
_PYTEST = re.compile(r"(?:.*(?:/|__))?pytest(?:\.[0-9a-f]+)?")  # its repository, also by the name of a set made of it
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
    for header in chain(_HEADER.findall(patch), headers(patch)):
        if _OUTSIDE.search(header) or _ABSOLUTE.search(header):
            return f"the patch names a path outside the work tree: {header.strip()[:200]}"
    if is_indented(patch):
        return "the patch holds an indented diff, which patch(1) would apply and git would not"
    room = MAX_NAMED_CHARACTERS
    for path in named_paths(patch):
        room -= len(path)
        if room < 0:
            return f"the patch names too many paths: more than {MAX_NAMED_CHARACTERS} characters of them"
    return None


def steers_the_tests(patch: str, evaluation: Evaluation, repo: str = "") -> str | None:
    """Where `patch`, for a task of `repo`, asks which test runs, reaches into pytest or tells it what to load, or None.

    None of it counts in files that are put back, nor where the reference fix does the same. Code of pytest itself knows
    which test runs, and code of its plugins reaches into it.
    """
    allowed = {match for _, line in added_lines(evaluation.patch) for match in _AWARE.findall(line)}
    allowed |= {line.strip() for _, line in added_lines(evaluation.patch)}
    if "pytest" in repo.lower() or _INSIDE.search(evaluation.patch):
        allowed.add("_pytest")
    own = _PYTEST.fullmatch(repo.lower()) or _changes(evaluation, _IN_PYTEST)
    protected = _matching([*PROTECTED, *_shadows(evaluation)])
    exempt = exempt_paths(evaluation)
    for path, line in added_lines(patch):
        if path not in exempt and protected.match(path):
            continue
        found = None if not path.endswith(".py") or (own and _IN_PYTEST.match(path)) else _aware(line, allowed)
        found = found or (_STEERING.search(line) if path.rpartition("/")[2] in CONFIGURATION else None)
        if found and found[0] not in allowed and line.strip() not in allowed:
            return f"the patch looks at the test run ({found[0].strip()}) in {path}"
    return None


def _aware(line: str, allowed: Collection[str]) -> re.Match[str] | None:
    """The first word of a line by which code learns of the test run and which is not allowed."""
    return next((found for found in _AWARE.finditer(line) if found[0] not in allowed), None)


def protected_globs(evaluation: Evaluation, extra: Sequence[str], hidden: Sequence[str] = ()) -> list[str]:
    """Globs of files that the patch cannot change; `hidden`: where in the work tree an image holds the task's tests."""
    tests = [_GLOB.sub(r"\\\1", path) for path in changed_paths(evaluation.test_patch)]
    held = [_GLOB.sub(r"\\\1", path) for path in hidden]
    return [*PROTECTED, *_shadows(evaluation), *extra, *tests, *held, *(f"{path}/*" for path in held)]


def exempt_paths(evaluation: Evaluation, hidden: Sequence[str] = ()) -> list[str]:
    """Paths that the reference fix changes, unless they are the task's tests."""
    tests = {*changed_paths(evaluation.test_patch), *hidden}
    folders = tuple(f"{path}/" for path in hidden)
    return [path for path in changed_paths(evaluation.patch) if path not in tests and not path.startswith(folders)]


def paths_within(tree: str, paths: Sequence[str]) -> list[str]:
    """Those of the absolute `paths` that lie in the work tree, as paths of the repository."""
    root = tree.rstrip("/") + "/"
    return [path.removeprefix(root) for path in paths if path.startswith(root) and path != root]


def _shadows(evaluation: Evaluation) -> list[str]:
    """Globs of modules that would shadow a runner's own, but for the project whose fix changes them."""
    globs = [[glob for name in names for glob in (f"{name}.py", f"{name}/*")] for names in RUNNERS]
    return [glob for each in globs if not _changes(evaluation, _matching(each)) for glob in each]


def _matching(globs: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))


def _changes(evaluation: Evaluation, paths: re.Pattern[str]) -> bool:
    """Whether the reference fix changes one of `paths`."""
    return any(paths.match(path) for path in changed_paths(evaluation.patch))
