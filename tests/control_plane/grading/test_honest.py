"""The reference fix, and honest patches of odd form, each through real grading Jobs: every one is resolved."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from .conftest import settings
from .honest import HONEST, Honest
from .task_image import Repository


def patch_of(repository: Repository, honest: Honest) -> str:
    patch = repository.patch(honest.files)
    for path, target in honest.links:
        patch += (
            f"diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n"
            f"@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
        )
    return honest.form(patch)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(kubeconfig: str, namespace: str, task: Task, repository: Repository) -> dict[str, Verdict]:
    """Every patch's verdict, graded beside each other."""
    async with (
        KubeClient.from_environment(kubeconfig) as client,
        Grader(client, namespace, settings(max_concurrent=5), {"swerl.dev/job": "honest"}) as grader,
    ):
        patches = {name: patch_of(repository, honest) for name, honest in HONEST.items()}
        patches["gold"] = task.ground_truth.patch
        graded = [grader.grade(task, patch) for patch in patches.values()]
        return dict(zip(patches, await asyncio.gather(*graded), strict=True))


@pytest.mark.parametrize("name", ["gold", *HONEST])
def test_honest_patch_is_resolved_after_contrast(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.resolved, verdict
    assert verdict.report["contrast"] == "held"
    assert "tampering" not in verdict.report
