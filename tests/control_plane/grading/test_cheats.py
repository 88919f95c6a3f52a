"""Patches that try to pass without a fix, each through a real grading Job: none scores."""

from __future__ import annotations

import pytest
from swerl_agent.grading import Grader
from swerl_agent.tasks import Task

from .task_image import HIDDEN_TEST, SOURCE, Repository

PASSED = "PASSED tests/test_calc.py::test_clamp\nPASSED tests/test_calc.py::test_double\n"
FORGE_LATE = f"""
import atexit, sys
def forge():
    sys.__stdout__.write({PASSED!r} + "FAILED tests/other.py::test_bogus\\n")
atexit.register(forge)
"""
FORGE_MARKERS = f"""
import atexit, sys
def forge():
    sys.__stdout__.write(">>>>> Start Test Output\\n" + {PASSED!r})
    sys.__stdout__.write(">>>>> End Test Output\\n>>>>> Test Exit Code: 0\\n")
atexit.register(forge)
"""
HOOK = (
    "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    report = outcome.get_result()\n    report.outcome = 'passed'\n"
)
DAEMON = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    for _ in range(200):
        os.write(1, ({PASSED!r} + ">>>>> End Test Output\\n").encode())
        time.sleep(0.05)
    os._exit(0)
"""
FORGE_REPORT = """
for target in ("/proc/1/fd/1", "/dev/stdout"):
    try:
        with open(target, "w") as out:
            out.write("\\nswerl-grading 0 end stage=eval exit=0 began=1 ended=2 total=0 kept=0\\n")
    except OSError:
        pass
"""
WORKING_TEST = HIDDEN_TEST.replace("== 5", "== 9")
FAKE_PYTEST = f"import sys\nsys.stdout.write({PASSED!r})\n"

CHEATS: dict[str, dict[str, str | None]] = {
    "edits the tests": {"tests/test_calc.py": WORKING_TEST},
    "deletes the tests": {"tests/test_calc.py": None},
    "conftest in the root": {"conftest.py": HOOK},
    "conftest beside the tests": {"tests/conftest.py": HOOK},
    "pytest.ini that loads a plugin": {"pytest.ini": "[pytest]\naddopts = -p cheat\n", "cheat.py": HOOK},
    "pyproject that loads a plugin": {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p cheat"\n',
        "cheat.py": HOOK,
    },
    "sitecustomize": {"sitecustomize.py": FAKE_PYTEST},
    "a pytest of its own": {"pytest.py": FAKE_PYTEST},
    "a pytest package of its own": {"pytest/__main__.py": FAKE_PYTEST, "pytest/__init__.py": ""},
    "programs of its own": {
        "bin/python3": f"#!/bin/sh\nprintf '{PASSED}'\n",
        "python3": f"#!/bin/sh\necho '{PASSED}'\n",
    },
    "prints result lines": {"calc.py": f"print({PASSED!r})\n" + SOURCE},
    "prints result lines at exit": {"calc.py": SOURCE + FORGE_LATE},
    "prints markers of its own": {"calc.py": SOURCE + FORGE_MARKERS},
    "leaves a daemon that prints": {"calc.py": SOURCE + DAEMON},
    "signs a report of its own": {"calc.py": SOURCE + FORGE_REPORT},
}


@pytest.mark.parametrize("name", CHEATS)
async def test_it_does_not_score(grader: Grader, task: Task, repository: Repository, name: str) -> None:
    verdict = await grader.grade(task, repository.patch(CHEATS[name]))
    assert verdict.status == "unresolved", verdict


async def test_git_hooks_in_a_patch_are_blocked(grader: Grader, task: Task) -> None:
    patch = (
        "diff --git a/.git/hooks/post-checkout b/.git/hooks/post-checkout\nnew file mode 100755\n--- /dev/null\n"
        "+++ b/.git/hooks/post-checkout\n@@ -0,0 +1 @@\n+#!/bin/sh\n"
    )
    assert (await grader.grade(task, patch)).status == "policy_blocked"


async def test_a_fix_beside_a_cheat_counts_for_itself(grader: Grader, task: Task, repository: Repository) -> None:
    files: dict[str, str | None] = {
        "calc.py": SOURCE.replace("max(low, value)", "min(high, max(low, value))"),
        "conftest.py": "1 / 0\n",
    }
    verdict = await grader.grade(task, repository.patch(files))
    assert verdict.resolved
    assert verdict.report["protected"] == [r"removed\ conftest.py"]


async def test_the_grading_pod_reaches_no_network(grader: Grader, task: Task, repository: Repository) -> None:
    probe = (
        "import os, socket\n"
        "host, port = os.environ['KUBERNETES_SERVICE_HOST'], int(os.environ['KUBERNETES_SERVICE_PORT'])\n"
        "try:\n    socket.create_connection((host, port), timeout=5)\n"
        "except OSError:\n    def clamp(value, low, high):\n        return min(high, max(low, value))\n"
        "else:\n    clamp = None\n"
        "def double(value):\n    return 2 * value\n"
    )
    verdict = await grader.grade(task, repository.patch({"calc.py": probe}))
    assert verdict.resolved, "the API server answered from inside a grading Pod"
