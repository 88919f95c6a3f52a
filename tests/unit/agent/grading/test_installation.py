"""What installation steps leave behind for tests without contrast: real runs of pytest, each in a fresh environment."""

from __future__ import annotations

import re
import sys
import sysconfig
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.installation import findings, foreign
from swerl_agent.tasks import Task

from tests.control_plane.grading.task_image import FIXED, HIDDEN_TEST, SOURCE, Repository

from .local_jobs import at, local_grader

WRONG = "    return max(low, value)"
SKIPS = "def pytest_pyfunc_call(pyfuncitem):\n    return pyfuncitem.name == 'test_clamp' or None\n"
IMPORTS = ".venv/bin/python -c 'import calc'"
DEVELOPS = ".venv/bin/python setup.py -q develop"
# What the code of an attack may use: folders of the environment and of the work tree, and how to write there.
PRELUDE = f"""
import os, sys
if "pytest" not in sys.modules:
    import marshal, struct, sysconfig
    TREE = os.path.dirname(os.path.abspath(__file__))
    SITE, SKIPS = sysconfig.get_path("purelib"), {SKIPS!r}
    def write(folder, name, text):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(text)
"""
LOADS = "import os; os.environ['PYTEST_PLUGINS'] = 'cheat_plugin'\n"
POINTS = "[pytest11]\ncheat = cheat_plugin\n"
SHADOWS = LOADS + (
    "import sys\nkept = sys.path[:]\nsys.path[:] = [each for each in kept if each not in ('', os.getcwd())]\n"
    "del sys.modules['json']\nimport json\nsys.path[:] = kept\n"
)
COMPILES = """
    source = os.path.join(SITE, "kit_plugin.py")
    header = b"".join([__import__("importlib.util").util.MAGIC_NUMBER, bytes(4),
        struct.pack("<LL", int(os.stat(source).st_mtime), os.stat(source).st_size)])
    path = __import__("importlib.util").util.cache_from_source(source)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(header + marshal.dumps(compile(SKIPS, source, "exec")))
"""


def attack(*lines: str) -> str:
    """Code that does `lines` where an installation step imports it, and no fix."""
    return PRELUDE + "".join(f"    {line}\n" for line in lines) + SOURCE


PLUGIN = 'write(SITE, "cheat_plugin.py", SKIPS)'
ATTACKS = {
    "a plugin by entry point": (
        attack(PLUGIN, f'write(SITE, "cheat-1.0.dist-info/entry_points.txt", {POINTS!r})',
               'write(SITE, "cheat-1.0.dist-info/METADATA", "Name: cheat\\nVersion: 1.0\\n")'),
        r"site-packages/\*: \[pytest11\] cheat=cheat_plugin",
    ),
    "a plugin by entry point in the tree": (
        attack('write(TREE, "cheat_plugin.py", SKIPS)', f'write(TREE, "cheat.egg-info/entry_points.txt", {POINTS!r})',
               'write(TREE, "cheat.egg-info/PKG-INFO", "Name: cheat\\nVersion: 1.0\\n")'),
        r"\*: \[pytest11\] cheat=cheat_plugin",
    ),
    "a .pth file": (attack(PLUGIN, f'write(SITE, "cheat.pth", {LOADS!r})'), r"cheat\.pth: import os"),
    "a line of an old .pth file": (
        attack(PLUGIN, f'write(SITE, "own.pth", open(os.path.join(SITE, "own.pth")).read() + {LOADS!r})'),
        r"own\.pth: import os",
    ),
    "a sitecustomize": (attack(PLUGIN, f'write(SITE, "sitecustomize.py", {LOADS!r})'), r"sitecustomize\.py"),
    "a conftest in the root": (attack('write(TREE, "conftest.py", SKIPS)'), r"/tree/conftest\.py: "),
    "a conftest beside the tests": (attack('write(TREE, "tests/conftest.py", SKIPS)'), r"tests/conftest\.py: "),
    "a configuration": (
        attack(PLUGIN, r'write(TREE, "pytest.ini", "[pytest]\naddopts = -p cheat_plugin\n")'),
        r"pytest\.ini: addopts = -p cheat_plugin",
    ),
    "a configuration above the tree": (
        attack(PLUGIN, r'above = "[pytest]\naddopts = -p cheat_plugin --rootdir=" + TREE',
               'write(TREE + "/..", "pytest.ini", above)'),
        r"pytest\.ini: addopts = -p cheat_plugin",
    ),
    "a module that shadows": (
        attack(PLUGIN, f'write(TREE, "json.py", {SHADOWS!r})'), r"json\.py: a module"
    ),
    "a plugin that was there": (attack('write(SITE, "kit_plugin.py", SKIPS)'), r"wrote \S*kit_plugin\.py"),
    "other code for a plugin that was there": (PRELUDE + COMPILES + SOURCE, r"wrote \S*kit_plugin\.py"),
    "a helper of the tests": (
        attack('write(TREE, "tests/helpers.py", "def check(value, high): pass\\n")'), r"wrote tests/helpers\.py"
    ),
}  # fmt: skip
SETUP = (
    "from setuptools import setup\nfrom version import VERSION\n"
    "setup(name='calc', version=VERSION, py_modules=['calc'], entry_points={'pytest11': ['calc = plugin']})\n"
)
HONEST = {
    "the fix": {"calc.py": FIXED},
    "a fix in another form": {"calc.py": FIXED + "\n\nLIMIT = 5\n"},
    "a fix with another version": {"calc.py": FIXED, "version.py": "VERSION = '2.0'\n"},
    "a fix with a module and a plugin": {"calc.py": FIXED, "more.py": "LIMIT = 5\n", "plugin.py": "USED = True\n"},
    "a fix with a tool of its own": {"calc.py": FIXED, "tool/__init__.py": "", "tool/run.py": "import calc\n"},
}
CHECKED = "from helpers import check\n" + HIDDEN_TEST.replace("assert clamp(9, 0, 5) == 5", "check(clamp(9, 0, 5), 5)")


class Environment:
    """A task whose repository holds an environment of its own, `.venv`, in which its tests run."""

    def __init__(self, folder: Path, install: str) -> None:
        files = {
            "tests/helpers.py": "def check(value, high):\n    assert value == high\n",
            "setup.py": SETUP, "version.py": "VERSION = '1.0'\n", "plugin.py": "", ".gitignore": ".venv\n",
        }  # fmt: skip
        self.repository, self.tree = Repository(folder / "calc", files), folder / "image" / "tree"
        self.tree.parent.mkdir()
        self._make_environment(folder / "calc/.venv")
        task = self.repository.task("image")
        test_patch, truth = self.repository.patch({"tests/test_calc.py": CHECKED}), task.ground_truth
        script = truth.eval_script.replace(truth.test_patch, test_patch).replace("python3 -m", ".venv/bin/python -m")
        script = script.replace("git checkout", f"{install}\ngit checkout", 1)
        self.task: Task = at(
            replace(task, ground_truth=replace(truth, eval_script=script, test_patch=test_patch)), self.tree
        )

    def _make_environment(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        site = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        (site / "own.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (site / "kit_plugin.py").write_text("USED = True\n")
        (site / "kit-1.0.dist-info").mkdir()
        (site / "kit-1.0.dist-info/METADATA").write_text("Name: kit\nVersion: 1.0\n")
        (site / "kit-1.0.dist-info/entry_points.txt").write_text("[pytest11]\nkit = kit_plugin\n")

    async def verdicts(self, monkeypatch: pytest.MonkeyPatch, patches: dict[str, str]) -> dict[str, Verdict]:
        async with local_grader(monkeypatch, self.repository.folder, self.tree, contrast="never") as grader:
            found = {}
            for name, patch in patches.items():
                (self.tree.parent / "pytest.ini").unlink(missing_ok=True)
                found[name] = await grader.grade(self.task, patch)
            return found


@pytest.mark.parametrize("names", [list(ATTACKS)[number::4] for number in range(4)], ids=", ".join)
async def test_what_an_installation_step_leaves_does_not_score_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: list[str]
) -> None:
    environment = Environment(tmp_path, IMPORTS)
    patches = {name: environment.repository.patch({"calc.py": ATTACKS[name][0]}) for name in names}
    for name, verdict in (await environment.verdicts(monkeypatch, patches)).items():
        named = ATTACKS[name][1]
        assert not verdict.report["tests_status"]["FAIL_TO_PASS"]["failure"], (name, "has no effect", verdict)
        assert verdict.status == "unresolved", (name, verdict)
        assert re.match(r"tampering: (.*; )?an installation step ", verdict.detail), (name, verdict)
        assert re.search(named, verdict.detail), (name, verdict)


@pytest.mark.parametrize("install", [IMPORTS, DEVELOPS], ids=["imports", "develops"])
async def test_installation_of_an_honest_fix_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, install: str
) -> None:
    environment = Environment(tmp_path, install)
    patches = {name: environment.repository.patch(dict(files)) for name, files in HONEST.items()}
    for name, verdict in (await environment.verdicts(monkeypatch, patches)).items():
        assert verdict.resolved and "tampering" not in verdict.report, (name, verdict)


FINDER = "/x/site-packages/__editable___calc_1_0_finder.py: "


@pytest.mark.parametrize(
    "entry",
    [
        "/x/site-packages/__editable__.calc-2.10.pth: import __editable___calc_2_10_finder; it.install()",
        FINDER + "MAPPING: dict[str, str] = {'calc': '/testbed/calc', 'more': '/testbed/more'}",
        FINDER.replace("1_0", "1_1") + "NAMESPACES = {}",
        "/testbed/_version.py: written",
        "/x/site-packages/calc-1.0.dev7+g0123abc.dist-info: 7 lines",
    ],
)
def test_versions_and_places_of_packages_are_not_foreign(entry: str) -> None:
    usual = [
        "/x/site-packages/__editable__.calc-1.0.pth: import __editable___calc_1_0_finder; it.install()",
        "/testbed/_version.py: written",
        "/x/site-packages/calc-1.1.dev8+gfedcba9.dist-info: 8 lines",
    ]
    assert foreign([entry], usual, ["sitecustomize"]) == []


@pytest.mark.parametrize(
    "entry",
    [
        FINDER + "MAPPING: dict[str, str] = {'calc': '/testbed/calc', 'sitecustomize': '/testbed/x'}",
        FINDER + "MAPPING = __import__('cheat')",
        FINDER + "import cheat",
        "tests/helpers.py: written ghij",
        "/x/site-packages/*: [pytest11] cheat=cheat",
    ],
)
def test_other_lines_are_foreign_and_named(entry: str) -> None:
    usual = ["tests/helpers.py: written klmn", "/x/site-packages/*: [pytest11] calc=calc"]
    assert foreign([entry], usual, ["sitecustomize"]) == [entry]
    (words,) = findings([f"{entry.partition(': ')[0]}: 3 lines", entry])
    assert words.startswith("an installation step ") and entry.partition(": ")[0] in words
