"""How a patch and a script get into a grading Pod: each way of applying, and more of both than one object holds."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode.baseline import Baseline
from swerl_agent.episode.workspace import ENVIRONMENT
from swerl_agent.grading import Grader
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from .task_image import FIXED, SOURCE, Repository, push_image
from .test_episode import FIX, in_a_pod

FUZZY = "patch --batch --forward --fuzz=5"


@pytest.fixture(scope="module")
def repository_ahead(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose image has a commit after the base, on a line close to that of the fix."""
    repository = Repository(tmp_path_factory.mktemp("ahead"))
    repository.write("calc.py", SOURCE.replace("def double(value):", "def double(value: int):"))
    repository.git("commit", "-q", "-a", "-m", "The image's own")
    return repository


@pytest.fixture(scope="module")
def task_ahead(repository_ahead: Repository) -> Task:
    return repository_ahead.task(push_image(repository_ahead))


def on_the_base(repository: Path) -> str:
    """The fix as a diff of the base commit's file."""
    base = Repository(repository)
    return base.patch({"calc.py": FIXED})


async def test_patch_of_the_files_as_they_are_is_applied_by_git(grader: Grader, task: Task) -> None:
    verdict = await grader.grade(task, task.ground_truth.patch)
    assert (verdict.status, verdict.report["applied"]) == ("resolved", "git apply --verbose")


async def test_patch_of_the_base_is_merged_with_what_the_image_changed(
    grader: Grader, task_ahead: Task, tmp_path: Path
) -> None:
    verdict = await grader.grade(task_ahead, on_the_base(tmp_path / "base"))
    assert (verdict.status, verdict.report["applied"]) == ("resolved", "git apply --verbose --3way"), verdict


async def test_patch_with_changed_context_is_applied_with_fuzz_to_the_original_files(
    grader: Grader, task: Task, repository: Repository
) -> None:
    """Before that git refuses it, merges nothing, and rejects one of two files' hunks having written the other's."""
    patch = repository.patch({"calc.py": FIXED, "new.py": "import calc\n"})
    patch = re.sub("index .*\n", "", patch).replace(" def double(value):", " def double(number):")
    verdict = await grader.grade(task, patch)
    assert (verdict.status, verdict.report["applied"]) == ("resolved", FUZZY), verdict


async def test_patch_that_the_image_has_already_counts_as_applied(grader: Grader, tmp_path: Path, task: Task) -> None:
    done = Repository(tmp_path / "done")
    patch = done.patch({"calc.py": FIXED})
    done.write("calc.py", FIXED)
    done.git("commit", "-q", "-a", "-m", "The fix")
    verdict = await grader.grade(done.task(push_image(done)), re.sub("index .*\n", "", patch))
    assert (verdict.status, verdict.report["applied"]) == ("resolved", "before"), verdict


async def test_patch_that_applies_in_part_is_none(grader: Grader, task: Task, repository: Repository) -> None:
    lost = "diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+b\n"
    verdict = await grader.grade(task, repository.patch({"calc.py": FIXED}) + lost)
    assert (verdict.status, verdict.report["applied"]) == ("patch_apply_failed", "")
    assert "gone.py" in verdict.detail


async def test_script_and_a_patch_beyond_a_mebibyte_each_arrive_whole(
    grader: Grader, task: Task, repository: Repository
) -> None:
    ballast = "".join(f"# {number:060x}\n" for number in range(25_000))
    digest = hashlib.sha256(ballast.encode()).hexdigest()
    arrived = f"[ $(sha256sum < {{}} | cut -c -64) = {digest} ] || exit 9\n"
    here_script = f"cat > /tmp/ballast <<'EOF_{digest}'\n{ballast}EOF_{digest}\n" + arrived.format("/tmp/ballast")
    script = task.ground_truth.eval_script.replace(
        "cd /testbed\n", f"cd /testbed\n{here_script}{arrived.format('ballast.py')}"
    )
    patch = repository.patch({"calc.py": FIXED, "ballast.py": ballast})
    assert min(len(script), len(patch)) > 1 << 20
    verdict = await grader.grade(replace(task, ground_truth=replace(task.ground_truth, eval_script=script)), patch)
    assert verdict.resolved, verdict.detail


@pytest.fixture(scope="module")
def dirty_task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """A task whose image was changed after its commit: edited and untracked files, and a lock that was left."""
    repository = Repository(tmp_path_factory.mktemp("dirty"))
    repository.write("tox.ini", "[pytest]\naddopts =\n")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "Settings")
    task = repository.task("")
    repository.write("tox.ini", "[pytest]\naddopts = -p no:doctest\n")
    repository.write("build/lib.py", "a\r\nb\r\n")
    (repository.folder / ".git/index.lock").touch()
    return replace(task, image=push_image(repository))


async def test_image_as_it_was_shipped_is_the_baseline(grader: Grader, dirty_task: Task) -> None:
    """Also of a patch that adds a file which the image has."""
    added = "diff --git a/build/lib.py b/build/lib.py\nnew file mode 100644\n--- /dev/null\n+++ b/build/lib.py\n"
    added += "@@ -0,0 +1,2 @@\n+a\r\n+b\r\n"
    verdict = await grader.grade(dirty_task, dirty_task.ground_truth.patch + added)
    assert verdict.resolved, verdict
    assert verdict.report["dirty"] == ["tox.ini", "build/lib.py"] and not verdict.report["protected"], verdict


async def test_agent_that_commits_in_a_changed_image_gives_its_own_change(
    client: KubeClient, namespace: str, dirty_task: Task, grader: Grader
) -> None:
    async with in_a_pod(client, namespace, dirty_task) as session:
        baseline = Baseline(session, "/testbed", ENVIRONMENT)
        baseline.begin()
        await baseline.ready()
        work = f"cd /testbed; rm .git/index.lock; {FIX}; head -c 12582912 /dev/urandom > core; chown -R 1000 ."
        work += (
            "; git -c user.name=a -c user.email=a@b commit -qam fix; git config color.ui always; touch .git/index.lock"
        )
        await session.run(work, timeout=60)
        patch = await baseline.patch()
    assert patch.left_out == ("core: 12582912 bytes",)
    assert re.findall("^[+]{3} (.*)", patch.text, re.MULTILINE) == ["b/calc.py"]
    assert (await grader.grade(dirty_task, patch.text)).resolved
