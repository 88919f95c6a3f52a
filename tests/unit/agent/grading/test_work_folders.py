"""A task whose row names its work folder is graded there, whatever the sandbox settings say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.control_plane.grading.task_image import Repository

from .local_jobs import at, local_grader


async def test_task_is_graded_in_the_folder_that_its_row_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repository, tree = Repository(tmp_path / "calc"), tmp_path / "tree"
    task = at(repository.task("image"), tree)
    async with local_grader(monkeypatch, repository.folder, tree, workdir=str(tmp_path / "testbed")) as grader:
        elsewhere = await grader.grade(task, task.ground_truth.patch)
        assert elsewhere.status == "infra_error" and "no repository at the work tree" in elsewhere.detail, elsewhere
        found = await grader.grade(replace(task, workdir=str(tree)), task.ground_truth.patch)
        assert (found.status, found.report["contrast"]) == ("resolved", "held"), found
