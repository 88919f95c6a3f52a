"""Patches that try to pass without a fix, each through a real grading Job: none scores, and each is named."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from .cheats import CHEATS as FORGERIES
from .cheats import Cheat
from .cheats_by_contrast import CONTRASTED
from .conftest import settings
from .task_image import FIXED, Repository

CHEATS = {**FORGERIES, **CONTRASTED}


def patch_of(repository: Repository, cheat: Cheat) -> str:
    patch = repository.patch(cheat.files) if cheat.files else ""
    for path, target in cheat.links:
        patch += (
            f"diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n"
            f"@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
        )
        if target.startswith("/usr"):
            inside = f"{path}/sitecustomize.py"
            patch += (
                f"diff --git a/{inside} b/{inside}\nnew file mode 100644\n--- /dev/null\n+++ b/{inside}\n"
                "@@ -0,0 +1 @@\n+1 / 0\n"
            )
    return patch + cheat.raw


def task_of(task: Task, cheat: Cheat) -> Task:
    before, own = cheat.before, " tests/test_calc.py\n: '>>>>> End"
    lines = task.ground_truth.eval_script
    if cheat.earlier:
        before, lines = "echo 'import calc' > tests/test_before.py", lines.replace(own, f" tests/test_before.py{own}")
    lines = lines.replace(": '>>>>> Start", f"{before}\n: '>>>>> Start")
    return replace(task, ground_truth=replace(task.ground_truth, eval_script=lines)) if before else task


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(kubeconfig: str, namespace: str, task: Task, repository: Repository) -> dict[str, Verdict]:
    """Every cheat's verdict, graded beside each other."""
    async with (
        KubeClient.from_environment(kubeconfig) as client,
        Grader(client, namespace, settings(max_concurrent=6), {"swerl.dev/job": "cheats"}) as grader,
    ):
        patches = {name: patch_of(repository, cheat) for name, cheat in CHEATS.items()}
        graded = [grader.grade(task_of(task, cheat), patches[name]) for name, cheat in CHEATS.items()]
        return dict(zip(CHEATS, await asyncio.gather(*graded), strict=True))


@pytest.mark.parametrize("name", CHEATS)
def test_cheat_does_not_score_and_is_named(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.status == CHEATS[name].status, verdict
    assert CHEATS[name].is_named(verdict), verdict


def test_commits_after_the_base_commit_are_removed(verdicts: dict[str, Verdict]) -> None:
    graded = [verdict for verdict in verdicts.values() if verdict.status == "unresolved"]
    assert {verdict.report["scrubbed"] for verdict in graded} == {"removed"}


async def test_fix_with_a_cheat_is_graded_alone(grader: Grader, task: Task, repository: Repository) -> None:
    verdict = await grader.grade(task, repository.patch({"calc.py": FIXED, "conftest.py": "1 / 0\n"}))
    assert verdict.resolved
    assert verdict.report["protected"] == [r"removed\ conftest.py"]


async def test_code_of_the_patch_cannot_look_into_process_one(
    grader: Grader, task: Task, repository: Repository
) -> None:
    probe = (
        "import os\nfor name in ('mem', 'environ', 'fd/1', 'maps'):\n"
        "    try:\n        os.open('/proc/1/' + name, os.O_RDONLY)\n"
        "    except PermissionError:\n        continue\n    raise SystemExit(name)\n"
    )
    verdict = await grader.grade(task, repository.patch({"calc.py": probe + FIXED}))
    assert verdict.resolved, verdict
    assert verdict.report["shielded"]


async def test_grading_pod_reaches_no_network(grader: Grader, task: Task, repository: Repository) -> None:
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
