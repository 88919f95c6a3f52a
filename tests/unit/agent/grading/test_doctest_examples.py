"""Doctests that decide: what is changed in them, and tasks with them, graded on this machine."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.alterations import Names, TestSource, edited
from swerl_agent.grading.doctest_examples import doctest_change, doctest_edit
from swerl_agent.tasks import Task

from tests.control_plane.grading.task_image import SOURCE, Repository

from .local_jobs import at, local_grader

MODULE = (
    'def double(x):\n    r"""Twice.\n\n    >>> double(2)\n    4\n'
    '    >>> str(double(2)) + "\\n"\n    \'4\\n\'\n    """\n    return 2 * x\n'
)
VARIES = (
    ">>> object()\n<object ...>\n>>> 2 * 2 # may vary\n4\n"
    ">>> 1 / 0\nTraceback (most recent call last):\nZeroDivisionError: division by zero\n"
)
USAGE = "Usage\n\n>>> from calc import clamp, double\n>>> double(2)\n4\n>>> clamp(9, 0, 5)\n5\n"
INDENTED = "".join(f"    {line}\n" for line in USAGE.splitlines()[2:])
EXAMPLES = f'def usage():\n    """How to use it.\n\n{INDENTED}    """\n'
TEXT_ID, FUNCTION_ID = "docs/usage.rst::usage.rst", "tests/examples.py::examples.usage"
COMMAND = (
    "python3 -m pytest -rA -p no:cacheprovider --doctest-glob='*.rst' --doctest-modules"
    " docs/usage.rst tests/examples.py tests/test_calc.py"
)
ANY = "import doctest\ndoctest.OutputChecker.check_output = lambda *about, **named: True\n" + SOURCE
READS = SOURCE.replace(
    "    return max(low, value)",
    "    return type('Wanted', (), {'__repr__': lambda self: wanted()})()",
) + (
    "\n\ndef wanted():\n    import sys\n    frame = sys._getframe()\n"
    "    while not hasattr(frame.f_locals.get('example'), 'want'):\n        frame = frame.f_back\n"
    "    return frame.f_locals['example'].want.strip()\n"
)


def test_changed_answers_and_added_examples_fail(tmp_path: Path) -> None:
    source, names = TestSource(MODULE), Names("", "double")
    for change in ("value:0:5", "value:1:7", "example"):
        edit = doctest_edit(MODULE, source, names, change, random.Random(3))
        assert edit, change
        (tmp_path / "m.py").write_text(edited(MODULE, [edit]))
        done = subprocess.run([sys.executable, "-m", "doctest", "m.py"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode and "1 of " in done.stdout, (change, done.stdout)
    assert doctest_edit(MODULE, source, names, "value:2:7", random.Random(3)) is None


def test_answers_that_vary_are_not_changed() -> None:
    assert doctest_change(VARIES, None, Names("", ""), "", random.Random(3)) == "example"
    assert doctest_edit("Text\n", None, Names("", ""), "example", random.Random(3))


def test_example_of_what_the_fix_changes_comes_first() -> None:
    fix = "@@ -1 +1 @@ def clamp(value, low, high):\n-    return max(low, value)\n"
    for seed in range(20):
        assert doctest_change(USAGE, None, Names("", ""), fix, random.Random(seed)).startswith("value:1:")


def task_with(repository: Repository, tests: dict[str, str], *deciding: str) -> Task:
    """A task whose doctests decide; `tests`: files of its test patch."""
    task = repository.task("image", command=COMMAND)
    patch = repository.patch({**tests}) if tests else ""
    script = task.ground_truth.eval_script.replace(task.ground_truth.test_patch, patch or "\n")
    script = script if patch else script.replace("git apply", "cat")
    truth = replace(task.ground_truth, eval_script=script, test_patch=patch, fail_to_pass=deciding)
    return replace(task, ground_truth=truth)


async def graded(
    monkeypatch: pytest.MonkeyPatch, folder: Path, repository: Repository, task: Task, patches: dict[str, str]
) -> dict[str, Verdict]:
    async with local_grader(monkeypatch, repository.folder, folder / "tree") as grader:
        local = at(task, folder / "tree")
        return {name: await grader.grade(local, patch) for name, patch in patches.items()}


async def test_only_the_fix_passes_doctests_of_texts_and_functions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "calc")
    task = task_with(repository, {"docs/usage.rst": USAGE, "tests/examples.py": EXAMPLES}, TEXT_ID, FUNCTION_ID)
    patches = {name: repository.patch({"calc.py": code}) for name, code in {"any": ANY, "reads": READS}.items()}
    found = await graded(monkeypatch, tmp_path, repository, task, {"gold": task.ground_truth.patch, **patches})
    assert found["gold"].resolved and found["gold"].report["contrast"] == "held", found["gold"]
    for name in patches:
        assert found[name].status == "unresolved", found[name]
        assert f"contrast: {TEXT_ID} passes although it must fail" in found[name].detail, found[name]
        assert f"contrast: {FUNCTION_ID} passes although it must fail" in found[name].detail, found[name]


async def test_text_whose_doctests_decide_cannot_be_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "calc", {"docs/usage.rst": USAGE, "tests/examples.py": ""})
    task = task_with(repository, {}, TEXT_ID)
    forged = repository.patch({"docs/usage.rst": USAGE.replace("\n5", "\n9")})
    found = await graded(monkeypatch, tmp_path, repository, task, {"gold": task.ground_truth.patch, "forged": forged})
    assert found["gold"].resolved and found["gold"].report["contrast"] == "held", found["gold"]
    assert (found["forged"].status, found["forged"].report["protected"]) == (
        "unresolved",
        [r"restored\ docs/usage.rst"],
    )


async def test_doctests_in_files_of_the_fix_have_no_contrast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    documented = EXAMPLES.replace("usage", "clamp").replace("clamp():", "clamp(value, low, high):")
    base = {"calc.py": documented + SOURCE.partition("\n")[2], "docs/usage.rst": USAGE, "tests/examples.py": ""}
    repository = Repository(tmp_path / "calc", base)
    command = COMMAND.replace("docs/usage.rst", "calc.py")
    task = task_with(repository, {}, "calc.py::calc.clamp")
    fix = repository.patch({"calc.py": base["calc.py"].replace("max(low, value)", "min(high, max(low, value))")})
    script = task.ground_truth.eval_script.replace(COMMAND, command)
    task = replace(task, ground_truth=replace(task.ground_truth, eval_script=script, patch=fix))
    found = await graded(monkeypatch, tmp_path, repository, task, {"gold": fix})
    assert found["gold"].resolved and found["gold"].detail.endswith("contrast: unavailable"), found["gold"]
    assert found["gold"].report["contrast_reason"] == (
        "the reference fix changes calc.py, in which tests of FAIL_TO_PASS are"
    )
