"""Scripts that start several test sessions: each has a key of its own, and a key taken by a patch proves nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.tasks import Task

from tests.control_plane.grading.task_image import SOURCE, Repository

from .local_jobs import at, local_grader

OTHER = {"tests/test_other.py": "from calc import double\n\n\ndef test_other():\n    assert double(2) == 4\n"}
PYTEST = "python3 -m pytest -rA -p no:cacheprovider"
EACH_BY_NAME = f"for file in tests/test_other.py tests/test_calc.py; do {PYTEST} $file; done"
EACH_OF_A_PATTERN = f"for file in tests/test_*.py\ndo\n{PYTEST} $file\ndone"
# In the first session that imports it, it runs a session of its own that takes the next key and has tests of the task's
# names; sessions of the task's real tests do not reach their end.
TAKES_A_KEY = """
import os, subprocess, sys, tempfile
mark = os.path.join(tempfile.gettempdir(), "taken")
if not os.path.exists(mark):
    open(mark, "w").close()
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/tests")
    with open(folder + "/tests/test_calc.py", "w") as file:
        file.write("def test_clamp(): pass\\ndef test_double(): pass\\n")
    with open("/proc/self/environ") as file:
        variables = dict(each.split("=", 1) for each in file.read().split("\\0") if "=" in each)
    with open("/proc/%d/fd/1" % os.getppid(), "w") as out:
        command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "tests/test_calc.py"]
        subprocess.run(command, cwd=folder, env=variables, stdout=out, stderr=out)
if "tests/test_other.py" not in sys.argv:
    os._exit(0)
"""


async def verdict_on(
    monkeypatch: pytest.MonkeyPatch, folder: Path, command: str, files: dict[str, str | None] | None = None
) -> Verdict:
    """The verdict on a patch with `files`, or on the reference fix."""
    repository, tree = Repository(folder / "calc", OTHER), folder / "tree"
    task: Task = at(repository.task("image", command=command), tree)
    kept = (*task.ground_truth.pass_to_pass, *(["tests/test_other.py::test_other"] if "for " in command else []))
    task = replace(task, ground_truth=replace(task.ground_truth, pass_to_pass=kept))
    async with local_grader(monkeypatch, repository.folder, tree) as grader:
        return await grader.grade(task, repository.patch(files) if files else task.ground_truth.patch)


async def test_sessions_of_a_loop_over_names_are_witnessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdict = await verdict_on(monkeypatch, tmp_path, EACH_BY_NAME)
    assert verdict.resolved and verdict.report["contrast"] == "held", verdict


async def test_fix_is_not_accused_where_more_sessions_start_than_the_script_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verdict = await verdict_on(monkeypatch, tmp_path, EACH_OF_A_PATTERN)
    assert verdict.status == "unresolved" and "tampering" not in verdict.report, verdict
    assert "no witnessed session ran: tests/test_other.py::test_other; if the test command" in verdict.detail


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (f"{PYTEST} tests/test_calc.py", "cut short"),
        (EACH_BY_NAME, "contrast: tests/test_calc.py::test_clamp"),
    ],
)
async def test_session_of_the_patch_with_a_key_of_its_own_does_not_score(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, named: str
) -> None:
    verdict = await verdict_on(monkeypatch, tmp_path, command, {"calc.py": TAKES_A_KEY + SOURCE})
    assert verdict.status == "unresolved" and re.search(named, verdict.detail), verdict
