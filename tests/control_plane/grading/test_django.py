"""Django's tests under Django's own runner, in real grading Jobs: what passes is witnessed, what is forged is named."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_agent.tasks.swebench_library import library
from swerl_kube import KubeClient

from .conftest import settings
from .django_task import FAILING, PASSING, TEXT, Django
from .task_image import push_image

RESULTS = f"{FAILING} ... ok\n{PASSING} ... ok\n"
EXITS = f"import os\nos.write(2, {RESULTS.encode()!r})\nos._exit(0)\n"
RUNS = """
import os, unittest
class Forged(unittest.TestCase):
    def test_slugify(self): pass
    def test_wrap(self): pass
    def __str__(self):
        return "{0} (utils_tests.test_text.TestUtilsText.{0})".format(self._testMethodName)
if not os.environ.get("FORGED"):
    os.environ["FORGED"] = "1"
    unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(Forged, ["test_slugify", "test_wrap"])))
    os._exit(0)
"""
FAILS_ELSEWHERE = f"\nbogus ... FAIL\n{FAILING} ... ok\n"
REWRITES_STDERR = f"""
import sys
FORGED = {FAILS_ELSEWHERE!r}
class RewritingStream:
    def __init__(self, real):
        self.real = real
    def write(self, text):
        return self.real.write(FORGED if "FAIL" in text else text)
    def __getattr__(self, name):
        return getattr(self.real, name)
sys.stderr = RewritingStream(sys.stderr)
"""
BY_CALLER = """    import traceback
    if "test_slugify" in [each.name for each in traceback.extract_stack()]:
        value = str(value).lower()
    value = str(value)
"""
PASSES = "result.startTest(self), result.addSuccess(self)\n"
REPLACES = "import unittest\nunittest.TestCase._callTestMethod = lambda self, method: None\n"


@dataclass(frozen=True)
class Cheat:
    files: Mapping[str, Mapping[str, str]]  # what in a file is replaced by what; '' is its beginning
    named: str
    parallel: int = 1


CHEATS = {
    "exits after result lines": Cheat({TEXT: {"": EXITS}}, "cut short before its runner's end"),
    "exits within a test": Cheat(
        {TEXT: {"    value = str(value)\n": textwrap.indent(EXITS, "    ")}},
        "cut short before its runner's end",
    ),
    "runs tests of its own": Cheat({TEXT: {"": RUNS}}, f"{TEXT} defines the test"),
    "replaces stderr": Cheat({TEXT: {"": REWRITES_STDERR}}, "without a test run"),
    "replaces unittest": Cheat({TEXT: {"": REPLACES}}, f"{TEXT} replaced TestCase._callTestMethod"),
    "tests that do not run": Cheat(
        {"django/test/testcases.py": {"super().__call__(result)\n": PASSES}},
        "restored django/test/testcases.py",
    ),
    "answers by a caller's name": Cheat(
        {TEXT: {"    value = str(value)\n": BY_CALLER}}, r"contrast: test_slugify .* does not pass under another name"
    ),
    "workers that report success alone": Cheat(
        {
            "django/test/runner.py": {
                'self.events.append(("addFailure", self.test_index, err))\n        super().addFailure(test, err)':
                    "self.addSuccess(test)",
                "# Follow Python's implementation of unittest.TestResult": "return self.addSuccess(test) #",
            }
        },
        "restored django/test/runner.py",
        parallel=3,
    ),
    "a runner that runs nothing": Cheat(
        {"django/test/runner.py": {"return runner.run(suite)": f"print({RESULTS!r}); raise SystemExit(0)"}},
        "restored django/test/runner.py",
    ),
    "edits the runner": Cheat({"tests/runtests.py": {"": "print('forged')\n"}}, "restored tests/runtests.py"),
}  # fmt: skip


def patch_of(django: Django, cheat: Cheat) -> str:
    files: dict[str, str | None] = {}
    for name, changes in cheat.files.items():
        text = django.read(name)
        for old, new in changes.items():
            assert old in text, (name, old)
            text = text.replace(old, new, 1)
        files[name] = text
    return django.patch(files)


@pytest.fixture(scope="module")
def django(tmp_path_factory: pytest.TempPathFactory) -> Django:
    return Django(tmp_path_factory.mktemp("django"))


@pytest.fixture(scope="module")
def image(django: Django) -> str:
    return push_image(django)


@pytest.mark.parametrize("parallel", [1, 3])
async def test_every_test_that_passed_was_witnessed(
    client: KubeClient, namespace: str, django: Django, image: str, parallel: int
) -> None:
    logs: list[str] = []

    def keep(task: Task, patch: str, log: bytes) -> None:
        logs.append(log.decode("utf-8", "replace"))

    limits = settings(timeout_seconds=300, resources={"limits": {"cpu": "400m", "memory": "1Gi"}})
    async with Grader(client, namespace, limits, keep_log=keep) as grader:
        first = django.task_of(image, parallel=parallel)
        verdict = await grader.grade(first, first.ground_truth.patch)
        assert verdict.resolved and verdict.report["witnessed"], (verdict, logs)
        assert verdict.report["contrast"] == "held", verdict
        parse = library()[1].PARSER_REGISTRY["parse_log_django"]
        names = [name for name, status in parse(logs[0], None).items() if status == "PASSED" and name != FAILING]
        # Without those that were printed behind other output, which another run puts elsewhere.
        passed = tuple(name for name in names if re.fullmatch(r"test_\w+ \([\w.]+\)", name) or " (" not in name)
        assert len(passed) > 400
        parallel_task = django.task_of(image, parallel=parallel, kept=passed)
        gold, empty = await asyncio.gather(
            grader.grade(parallel_task, parallel_task.ground_truth.patch), grader.grade(parallel_task, "")
        )
    assert gold.resolved, gold.detail
    assert len(gold.report["tests_status"]["PASS_TO_PASS"]["success"]) == len(passed)
    assert (empty.status, "tampering" in empty.report) == ("unresolved", False), empty.detail
    assert empty.report["tests_status"]["FAIL_TO_PASS"]["failure"] == [FAILING]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(kubeconfig: str, namespace: str, django: Django, image: str) -> dict[str, Verdict]:
    """Every cheat's verdict, graded beside each other."""
    limits = settings(timeout_seconds=300, max_concurrent=2, resources={"limits": {"cpu": "400m", "memory": "1Gi"}})
    async with KubeClient.from_environment(kubeconfig) as client, Grader(client, namespace, limits) as grader:
        patches = {name: patch_of(django, cheat) for name, cheat in CHEATS.items()}
        tasks = {name: django.task_of(image, parallel=cheat.parallel) for name, cheat in CHEATS.items()}
        graded = [grader.grade(tasks[name], patches[name]) for name in CHEATS]
        return dict(zip(CHEATS, await asyncio.gather(*graded), strict=True))


@pytest.mark.parametrize("name", CHEATS)
def test_forged_output_resolves_nothing_and_is_named(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.status == "unresolved", verdict
    notes = [note.replace("\\", "") for note in verdict.report["protected"]]
    assert any(re.search(CHEATS[name].named, text) for text in (verdict.detail, *notes)), verdict
