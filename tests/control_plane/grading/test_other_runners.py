"""Contrast under other test commands: unittest, two commands one after the other, tests that the image holds itself."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
import pytest_asyncio
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from .cheats_by_contrast import WRONG
from .conftest import settings
from .task_image import FIXED, SOURCE, Repository

CASES = """import unittest

from calc import clamp, double


class TestCalc(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(2), 4)

    def test_clamp(self):
        self.assertEqual(clamp(9, 0, 5), 5)
        with self.subTest("low"):
            self.assertEqual(clamp(-9, 0, 5), 0)

    async def helper(self):
        return None
"""
ASYNC = """import unittest

from calc import clamp


class TestLater(unittest.IsolatedAsyncioTestCase):
    async def test_clamp(self):
        self.assertEqual(clamp(9, 0, 5), 5)
"""
UNITTEST = "python3 -m unittest -v tests.test_calc tests.test_later"
PYTEST = "python3 -m pytest -rA -p no:cacheprovider"
KINDS = ("unittest", "two commands")
ANY = SOURCE.replace(WRONG, "    return type('Any', (int,), {'__eq__': lambda *_: True, '__hash__': None})()")
CALLER = SOURCE.replace(
    WRONG,
    "    import sys\n    name = sys._getframe(1).f_code.co_name\n"
    "    return min(high, max(low, value)) if name == 'test_clamp' else value",
)
LEARNS = SOURCE.replace(
    WRONG,
    "    class Learned(int):\n        def __eq__(self, other):\n"
    "            return globals().setdefault('seen', {}).setdefault((value, low, high), other) == other\n"
    "        __hash__ = None\n    return Learned()",
)
QUIET = "import unittest\nunittest.TestCase.assertEqual = lambda *about, **named: None\n" + SOURCE
FORGES = (
    "import os\nos.write(2, b'test_clamp (tests.test_calc.TestCalc.test_clamp) ... ok\\n')\n"
    "os.write(1, b'PASSED tests/test_calc.py::test_clamp\\n')\n" + SOURCE
)
PATCHES = {"gold": FIXED, "any": ANY, "caller": CALLER, "learns": LEARNS, "quiet": QUIET, "forges": FORGES}
REASONS = {  # as regular expressions
    "any": "contrast: .*test_clamp.* passes although it must fail",
    "caller": "contrast: .*test_clamp.* does not pass under another name",
    "learns": "contrast: .*test_clamp.* passes although it must fail",
    "quiet": r"calc\.py replaced TestCase\.assertEqual",
    "forges": "both as passed and as failed: .*test_clamp|FAIL_TO_PASS 0/",  # pytest captures what it prints
}


def scripted(repository: Repository, task: Task, command: str, **tests: str) -> Task:
    """The task with other tests (by file name) and another command."""
    patch = repository.patch({f"tests/{name}.py": text for name, text in tests.items()} | {"tests/__init__.py": ""})
    ground_truth = task.ground_truth
    script = ground_truth.eval_script.replace(ground_truth.test_patch, patch)
    old = next(line for line in script.split("\n") if "pytest -rA" in line)
    return replace(task, ground_truth=replace(ground_truth, test_patch=patch, eval_script=script.replace(old, command)))


@pytest.fixture(scope="module")
def tasks(repository: Repository, task: Task) -> dict[str, Task]:
    cases = scripted(repository, task, UNITTEST, test_calc=CASES, test_later=ASYNC)
    names = ("test_clamp (tests.test_calc.TestCalc.test_clamp)", "test_clamp (tests.test_later.TestLater.test_clamp)")
    kept = ("test_double (tests.test_calc.TestCalc.test_double)",)
    ground_truth = replace(cases.ground_truth, fail_to_pass=names, pass_to_pass=kept, log_parser="parse_log_django")
    twice = f"{PYTEST} tests/test_calc.py; {PYTEST} tests/test_later.py"
    two = scripted(repository, task, twice, test_calc=CASES, test_later=ASYNC)
    ids = ("tests/test_calc.py::TestCalc::test_clamp", "tests/test_later.py::TestLater::test_clamp")
    both_classes = replace(
        two.ground_truth, fail_to_pass=ids, pass_to_pass=("tests/test_calc.py::TestCalc::test_double",)
    )
    return {
        "unittest": replace(cases, ground_truth=ground_truth),
        "two commands": replace(two, ground_truth=both_classes),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(
    kubeconfig: str, namespace: str, tasks: dict[str, Task], repository: Repository
) -> dict[tuple[str, str], Verdict]:
    """The verdict of every patch for every task."""
    patches = {name: repository.patch({"calc.py": text}) for name, text in PATCHES.items()}
    pairs = [(kind, name) for kind in tasks for name in patches]
    limits = settings(max_concurrent=5)
    async with KubeClient.from_environment(kubeconfig) as client, Grader(client, namespace, limits) as grader:
        graded = [grader.grade(tasks[kind], patches[name]) for kind, name in pairs]
        return dict(zip(pairs, await asyncio.gather(*graded), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_fix_is_resolved(verdicts: dict[tuple[str, str], Verdict], kind: str) -> None:
    gold = verdicts[kind, "gold"]
    assert gold.resolved and gold.report["contrast"] == "held", gold


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("kind", KINDS)
def test_other_code_does_not_score_and_is_named(verdicts: dict[tuple[str, str], Verdict], kind: str, name: str) -> None:
    verdict = verdicts[kind, name]
    assert verdict.status == "unresolved", verdict
    assert re.search(REASONS[name], verdict.detail), verdict


async def test_two_commands_have_a_key_each(grader: Grader, tasks: dict[str, Task]) -> None:
    task = tasks["two commands"]
    for _ in range(3):
        verdict = await grader.grade(task, task.ground_truth.patch, fresh=True)
        assert verdict.resolved, verdict
