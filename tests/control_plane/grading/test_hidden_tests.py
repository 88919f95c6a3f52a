"""Patches that try to pass where git does not know the image's tests and libraries, through real grading Jobs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_agent.tasks.r2e import EVAL_SCRIPT, HIDDEN
from swerl_kube import KubeClient

from .cheats import Cheat
from .conftest import settings
from .task_image import HIDDEN_TEST, Repository, push_image

RUN_TESTS = "python3 -m pytest -rA -p no:cacheprovider r2e_tests\n"
TESTS = {"run_tests.sh": RUN_TESTS, "r2e_tests/test_1.py": "import vendored.kit\n" + HIDDEN_TEST}
KIT = {"vendored/__init__.py": "", "vendored/kit.py": "ready = True\n"}
SUMMARY = "short test summary info\nPASSED r2e_tests/test_1.py::test_clamp\nPASSED r2e_tests/test_1.py::test_double\n"
FORGES = f"printf '%s' '{SUMMARY}'\n"
FORGES_AT_IMPORT = f"import os\nos.write(1, {SUMMARY.encode()!r})\nos._exit(0)\n"

IN_THE_TREE = {
    "rewrites the script": Cheat(
        {"run_tests.sh": f"{RUN_TESTS.strip()} | sed s/FAILED/PASSED/\n"}, "restored run_tests.sh"
    ),
    "forges in the script": Cheat({"run_tests.sh": FORGES}, "restored run_tests.sh"),
    "rewrites a test": Cheat(
        {"r2e_tests/test_1.py": HIDDEN_TEST.replace("== 5", "== 9")}, "restored r2e_tests/test_1.py"
    ),
    "adds a test": Cheat({"r2e_tests/conftest.py": "1 / 0\n"}, "removed r2e_tests/conftest.py"),
    "rewrites a library": Cheat({"vendored/kit.py": FORGES_AT_IMPORT}, "restored vendored/kit.py"),
    "adds to a library": Cheat({"vendored/more.py": FORGES_AT_IMPORT}, "removed vendored/more.py"),
    "puts a program before others": Cheat({".venv/bin/timeout": f"#!/bin/sh\n{FORGES}"}, "removed .venv/bin/timeout"),
}
OUTSIDE = {
    "a script of its own": Cheat({"run_tests.sh": FORGES}, "removed run_tests.sh"),
    "tests of its own": Cheat(
        {"r2e_tests/test_1.py": HIDDEN_TEST.replace("== 5", "== 9")}, "removed r2e_tests/test_1.py"
    ),
}


def hidden(task: Task, image: str) -> Task:
    """The task as one of R2E-Gym's, whose tests lie in `image`."""
    outcomes = (("test_clamp", "PASSED"), ("test_double", "PASSED"))
    ground_truth = replace(
        task.ground_truth,
        eval_script=EVAL_SCRIPT,
        test_patch="",
        fail_to_pass=("test_clamp",),
        pass_to_pass=(),
        expected_output=outcomes,
    )
    return replace(task, image=image, ground_truth=ground_truth, hidden_paths=tuple(HIDDEN))


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def patch_of(folder: Path, cheat: Cheat, test_files: dict[str, str]) -> str:
    """The cheat's files, new ones executable, as a diff of the image: `known` beside the repository's own files."""
    repository = Repository(folder)
    write(folder, test_files)
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "as the image has it")
    return repository.patch(cheat.files).replace("new file mode 100644", "new file mode 100755")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(
    kubeconfig: str, namespace: str, task: Task, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Verdict]:
    """Every cheat's verdict, and that of the reference fix in both images, graded beside each other."""
    folder = tmp_path_factory.mktemp("hidden")
    images = {"in": Repository(folder / "in"), "out": Repository(folder / "out")}
    write(images["in"].folder, {**TESTS, **KIT})
    write(images["out"].folder, KIT)
    write(folder / "top", TESTS)
    inside = hidden(task, push_image(images["in"]))
    outside = hidden(task, push_image(images["out"], outside=folder / "top"))
    cases = {name: (inside, patch_of(folder / name, cheat, {**TESTS, **KIT})) for name, cheat in IN_THE_TREE.items()}
    cases |= {name: (outside, patch_of(folder / name, cheat, KIT)) for name, cheat in OUTSIDE.items()}
    cases |= {name: (each, task.ground_truth.patch) for name, each in (("in", inside), ("out", outside))}
    async with (
        KubeClient.from_environment(kubeconfig) as client,
        Grader(client, namespace, settings(max_concurrent=6), {"swerl.dev/job": "cheats"}) as grader,
    ):
        graded = await asyncio.gather(*(grader.grade(*each) for each in cases.values()))
    return dict(zip(cases, graded, strict=True))


@pytest.mark.parametrize("name", [*IN_THE_TREE, *OUTSIDE])
def test_cheat_does_not_score_and_is_named(verdicts: dict[str, Verdict], name: str) -> None:
    verdict, cheat = verdicts[name], {**IN_THE_TREE, **OUTSIDE}[name]
    assert verdict.status == "unresolved", verdict
    assert cheat.is_named(verdict), verdict


@pytest.mark.parametrize("name", ["in", "out"])
def test_reference_fix_scores_for_every_test_location(verdicts: dict[str, Verdict], name: str) -> None:
    assert verdicts[name].resolved, verdicts[name]
    assert verdicts[name].report["patch_successfully_applied"] is True
    assert verdicts[name].report["protected"] == []
