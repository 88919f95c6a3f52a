"""What a patch may touch.

A patch is never applied if one of these holds:

* It names git's own files or a path outside the repository.
* It has an indented diff, which only patch(1) reads.
* Its code asks which test runs, or reaches into pytest. Repositories of pytest or its plugins are exempt.
* It sets what the runner loads, in a file that grading does not restore. Exempt if the reference fix does the same.

After the patch, grading restores all files that decide how tests run to the image's state and removes new ones: the
task's tests, other existing tests, pytest and interpreter hooks, test configuration. Only paths that the reference fix
changes are exempt.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain

from swerl_agent.tasks import GroundTruth
from swerl_agent.tasks.diffs import added_lines, changed_paths, headers, is_indented, named_paths, plain_names

from .test_targets import named_files, text_file

MAX_PATCH_BYTES = 8 << 20
MAX_HEADERS = 200_000  # lines that may name a file, read twice
MAX_HEADER_CHARACTERS = 32_768  # of such a line; a path has at most 4,096 bytes, and a byte at most 4 characters
MAX_NAMED_CHARACTERS = 2 * MAX_PATCH_BYTES  # of all paths that a patch may mean; they travel with it

CONFIGURATION = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "tox.toml", "toxfile.py",
    "setup.cfg", "pyproject.toml", ".coveragerc",
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
    # pytest: hooks, plugins by entry point; Python reads these folders' endings in any case
    "conftest.py", "*/conftest.py",
    "*.[eE][gG][gG]-[iI][nN][fF][oO]/*", "*.[dD][iI][sS][tT]-[iI][nN][fF][oO]/*",
    # configuration of runners and of coverage (whose plugins are code), also beside tests in a sub-folder
    *(f"{folder}{name}" for folder in ("", "*/") for name in CONFIGURATION),
    # the interpreter's start-up hooks
    "sitecustomize.py", "*/sitecustomize.py", "usercustomize.py", "*/usercustomize.py", "*.pth",
)  # fmt: skip
# Helpers of tests and what starts them, in many repositories; in some the code to fix: a glob of these that matches a
# path of the reference fix protects nothing.
DEFAULT_GLOBS = (
    "test/*", "*/test/*", "testing/*", "*/testing/*", "_testing/*", "*/_testing/*",
    # data that tests read, and their helpers beside the code
    *(f"{folder}{name}" for folder in ("", "*/") for name in (
        "test[-_.]*/*", "testdata/*", "testfiles/*", "*[-_]tests/*", "unittests/*", "__snapshots__/*", "__fixtures__/*",
        "testutil*.py", "testhelper*.py", ".gitattributes",
    )),
    "Makefile", "makefile", "GNUmakefile", "noxfile.py", "tasks.py", "dodo.py", "fabfile.py", "justfile", "Justfile",
    "Taskfile.yml", "run_tests.py", "run_tests.sh", "runtests.sh", "test.sh", "Rakefile", ".pre-commit-config.yaml",
)  # fmt: skip
# Modules at the top that would shadow a runner's own, by the project that they are of: there they are the code to fix.
RUNNERS = (("pytest", "_pytest"), ("pluggy",), ("iniconfig",), ("unittest",))
# What runners and their usual plugins import besides the standard library, and what that once held.
IMPORTED = frozenset((
    "pytest", "_pytest", "pluggy", "iniconfig", "py", "attr", "attrs", "packaging", "exceptiongroup", "tomli", "toml",
    "colorama", "importlib_metadata", "zipp", "typing_extensions", "more_itertools", "six", "wcwidth", "pathlib2",
    "atomicwrites", "funcsigs", "pygments", "tox", "virtualenv", "filelock", "platformdirs", "distlib", "pyproject_api",
    "cachetools", "chardet", "xdist", "execnet", "pytest_cov", "coverage", "pytest_timeout", "pytest_asyncio", "anyio",
    "pytest_mock", "hypothesis", "sortedcontainers", "asgiref", "sqlparse", "tblib", "nose", "nose2", "setuptools",
    "pkg_resources", "_distutils_hack", "pip", "swerl_paths", "swerl_record", "swerl_memory", "swerl_witness",
    "swerl_unittest", "sitecustomize", "usercustomize",
))  # fmt: skip
FORMER_LIBRARY = frozenset(("asynchat", "asyncore", "distutils", "imp"))  # those that runners once imported

# Lines from which git or patch takes a file's name, also where a hunk's counts claim them for its content: counts may
# lie, so these are looked for everywhere, and by marks that honest content hardly has. `headers` yields all others.
_HEADER = re.compile(
    r"^(?:diff --git |rename (?:from|to) |copy (?:from|to) |Index: |--- (?=.*\n\+\+\+ )|(?<=\n)\+\+\+ )(.*)$",
    re.MULTILINE,
)
_OUTSIDE = re.compile(r'(?:^|[/ "])(?:\.\.|\.git)(?:/|[\s"]|$)', re.IGNORECASE)
_ABSOLUTE = re.compile(r'^"?/(?!dev/null\b)')
# Names by which code learns of the test that runs; no library needs them to work.
_TEST_RUN_NAMES = re.compile(r"PYTEST_CURRENT_TEST|PYTEST_VERSION|\b_pytest\b|[\"']pytest[\"'] in (?:sys\.)?modules")
_INSIDE = re.compile(r"\b_pytest\b")
_IN_PYTEST = re.compile(r"(?:.*/)?_pytest/")
_PYTEST = re.compile(r"(?:.*(?:/|__))?pytest(?:\.[0-9a-f]+)?")  # its repository, also by the name of a set made of it
# What makes a runner load code or look elsewhere for tests, in its configuration.
_RUNNER_OPTIONS = re.compile(
    r"addopts|pytest11|required_plugins|tool:pytest|ini_options|^\s*\[pytest\]|^\s*\"?plugins\b|testpaths|python_files"
)
_GLOB = re.compile(r"([\\*?\[\]()|])")


def forbidden(patch: str, max_named: int = MAX_NAMED_CHARACTERS) -> str | None:
    """Why `patch` must not be applied at all, or None."""
    try:
        size = len(patch.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "the patch contains a lone surrogate, which no file can contain"
    if size > MAX_PATCH_BYTES:
        return f"the patch has {size} bytes, more than the limit of {MAX_PATCH_BYTES}"
    for number, header in enumerate(chain(_HEADER.findall(patch), headers(patch))):
        if number >= MAX_HEADERS:
            return f"the patch has more than {MAX_HEADERS} lines that name a file"
        if len(header) > MAX_HEADER_CHARACTERS:
            return f"a line of the patch that names a file has more than {MAX_HEADER_CHARACTERS} characters"
        for reading in (header, *plain_names(header)):
            if _OUTSIDE.search(reading) or _ABSOLUTE.search(reading):
                return f"the patch names a path outside the work tree: {_shown(header)}"
    if is_indented(patch):
        return "the patch holds an indented diff, which patch(1) would apply and git would not"
    room = max_named
    for path in named_paths(patch):
        room -= len(path)
        if room < 0:
            return f"the patch names too many paths: more than {max_named} characters of them"
    return None


def _shown(header: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in header.strip()[:200])


def runner_option_change(patch: str, ground_truth: GroundTruth) -> str | None:
    """Where `patch` sets what the runner loads, in a file that is left to it, or None.

    None of it counts where the reference fix does the same.
    """
    allowed = {line.strip() for _, line in added_lines(ground_truth.patch)}
    for path, line in _kept_lines(patch, ground_truth):
        found = _RUNNER_OPTIONS.search(line) if path.rpartition("/")[2] in CONFIGURATION else None
        if found and line.strip() not in allowed:
            return f"the patch looks at the test run ({found[0].strip()}) in {path}"
    return None


def runner_query(patch: str, ground_truth: GroundTruth, repo: str = "") -> str | None:
    """Where the code of `patch`, for a task of `repo`, asks which test runs or reaches into pytest, or None.

    Counts only where contrast is off or unavailable, and neither in files that are put back nor where the reference
    fix does the same. Code of pytest itself knows which test runs, and code of its plugins reaches into it.
    """
    allowed = {match for _, line in added_lines(ground_truth.patch) for match in _TEST_RUN_NAMES.findall(line)}
    lines = {line.strip() for _, line in added_lines(ground_truth.patch)}
    if "pytest" in repo.lower() or _INSIDE.search(ground_truth.patch):
        allowed.add("_pytest")
    own = _PYTEST.fullmatch(repo.lower()) or _changes(ground_truth, _IN_PYTEST)
    for path, line in _kept_lines(patch, ground_truth):
        if not path.endswith(".py") or (own and _IN_PYTEST.match(path)) or line.strip() in lines:
            continue
        found = next((found for found in _TEST_RUN_NAMES.finditer(line) if found[0] not in allowed), None)
        if found:
            return f"the patch looks at the test run ({found[0].strip()}) in {path}"
    return None


def _kept_lines(patch: str, ground_truth: GroundTruth) -> Iterator[tuple[str, str]]:
    """The lines that `patch` adds to files that are not put back."""
    protected = _matching([*PROTECTED, *_default_globs(ground_truth), *_shadows(ground_truth)])
    exempt = exempt_paths(ground_truth)
    return ((path, line) for path, line in added_lines(patch) if path in exempt or not protected.match(path))


def unprotected_paths(patch: str, ground_truth: GroundTruth) -> list[str]:
    """Paths that a patch changes and that are not put back, whatever a job protects besides."""
    protected, tests = _matching(protected_globs(ground_truth, [])), changed_paths(ground_truth.test_patch)
    exempt = exempt_paths(ground_truth)
    changed = [path for path in changed_paths(patch) if path not in tests]
    return [path for path in changed if path in exempt or not protected.match(path)]


def reserved_names(ground_truth: GroundTruth) -> list[str]:
    """Modules that a new file on `sys.path` would replace: of the standard library, and what the runners import."""
    own = {name for names in RUNNERS if not _shadowed(ground_truth, names) for name in names}
    return sorted((sys.stdlib_module_names | FORMER_LIBRARY | IMPORTED) - own)


def protected_globs(ground_truth: GroundTruth, extra: Sequence[str], hidden: Sequence[str] = ()) -> list[str]:
    """Globs of files that the patch cannot change; `hidden`: where in the work tree an image holds the task's tests."""
    named = [*changed_paths(ground_truth.test_patch), *_texts(ground_truth)]
    tests = [_GLOB.sub(r"\\\1", path) for path in dict.fromkeys(named)]
    held = [_GLOB.sub(r"\\\1", path) for path in hidden]
    usual = [*_default_globs(ground_truth), *_named_tests(ground_truth)]
    return [*PROTECTED, *usual, *_shadows(ground_truth), *extra, *tests, *held, *(f"{path}/*" for path in held)]


def _default_globs(ground_truth: GroundTruth) -> list[str]:
    return [glob for glob in DEFAULT_GLOBS if not _changes(ground_truth, _matching([glob]))]


def _named_tests(ground_truth: GroundTruth) -> list[str]:
    """Globs of files that the ids of the task's tests name and that no other glob protects."""
    known = _matching(PROTECTED)
    found = named_files([*ground_truth.fail_to_pass, *ground_truth.pass_to_pass])
    paths = [_GLOB.sub(r"\\\1", path) for path in found if not known.match(path)]
    return [glob for path in paths for glob in (path, f"*/{path}")]


def _texts(ground_truth: GroundTruth) -> list[str]:
    """Text files whose doctests decide, without those that the reference fix changes."""
    found = [text_file(test) for test in ground_truth.fail_to_pass]
    return [path for path in found if path and path not in changed_paths(ground_truth.patch)]


def exempt_paths(ground_truth: GroundTruth, hidden: Sequence[str] = ()) -> list[str]:
    """Paths that the reference fix changes, unless they are the task's tests."""
    tests = {*changed_paths(ground_truth.test_patch), *hidden}
    folders = tuple(f"{path}/" for path in hidden)
    return [path for path in changed_paths(ground_truth.patch) if path not in tests and not path.startswith(folders)]


def paths_within(tree: str, paths: Sequence[str]) -> list[str]:
    """Those of the absolute `paths` that lie in the work tree, as paths of the repository."""
    root = tree.rstrip("/") + "/"
    return [path.removeprefix(root) for path in paths if path.startswith(root) and path != root]


def _shadows(ground_truth: GroundTruth) -> list[str]:
    """Globs of modules that would shadow a runner's own, but for the project whose fix changes them."""
    return [glob for names in RUNNERS if _shadowed(ground_truth, names) for glob in _globs(names)]


def _shadowed(ground_truth: GroundTruth, names: Sequence[str]) -> bool:
    """Whether files of these names would take the runner's place: the project's fix changes none of them."""
    return not _changes(ground_truth, _matching(_globs(names)))


def _globs(names: Sequence[str]) -> list[str]:
    return [glob for name in names for glob in (f"{name}.py", f"{name}/*")]


def _matching(globs: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))


def _changes(ground_truth: GroundTruth, paths: re.Pattern[str]) -> bool:
    """Whether the reference fix changes one of `paths`."""
    return any(paths.match(path) for path in changed_paths(ground_truth.patch))
