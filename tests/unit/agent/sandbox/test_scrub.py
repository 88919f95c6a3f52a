"""Git history: commits that HEAD does not reach are removed, the others are unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import ScrubFailed, Session, scrub_history

from tests.git_repository import commit, git, repository_with_later_commits

if TYPE_CHECKING:
    from .conftest import ImageFolder

pytestmark = pytest.mark.parametrize("image_folder", ["dash", "busybox"], indirect=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return repository_with_later_commits(tmp_path)


def leftovers(folder: Path) -> str:
    return git(folder, "fsck", "--unreachable", "--no-reflogs", "--no-progress")


async def test_scrub_keeps_only_ancestors(session: Session, repository: Path) -> None:
    head, status = git(repository, "rev-parse", "HEAD"), git(repository, "status", "--porcelain")
    scrub = await scrub_history(session, str(repository))
    assert scrub.commits == 3 and scrub.objects_before > scrub.objects_after
    assert git(repository, "log", "--all", "--reflog", "--format=%s").split() == ["base", "old", "older"]
    assert git(repository, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert (git(repository, "remote"), git(repository, "reflog"), git(repository, "stash", "list")) == ("", "", "")
    assert leftovers(repository) == ""
    assert (git(repository, "rev-parse", "HEAD"), git(repository, "status", "--porcelain")) == (head, status)
    assert (repository / "old").read_text() == "changed in the working tree\n"
    assert commit(repository, "work goes on")


async def test_second_scrub_changes_nothing(session: Session, repository: Path) -> None:
    first = await scrub_history(session, str(repository))
    second = await scrub_history(session, str(repository))
    assert second.objects_before == second.objects_after == first.objects_after


async def test_detached_head_gets_a_branch(session: Session, repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    await scrub_history(session, str(repository))
    assert git(repository, "symbolic-ref", "HEAD") == "refs/heads/main"


async def test_borrowed_objects_are_copied(session: Session, tmp_path: Path) -> None:
    lender, folder = tmp_path / "lender", tmp_path / "repo"
    lender.mkdir()
    git(lender, "init", "-q", "-b", "main")
    commit(lender, "base")
    git(tmp_path, "clone", "-q", "--shared", str(lender), str(folder))
    commit(lender, "fix")
    await scrub_history(session, str(folder))
    lender.rename(tmp_path / "away")
    assert git(folder, "log", "--format=%s") == "base"


async def test_hooks_do_not_run(session: Session, repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    await scrub_history(session, str(repository))
    assert not (tmp_path / "hooked").exists()


async def test_repository_of_another_owner_is_scrubbed_by_a_git_that_takes_its_setting_from_files_alone(
    session: Session, image_folder: ImageFolder, repository: Path
) -> None:
    (image_folder.path / "git").unlink()
    refuse = 'case "$*" in *safe.directory*) exit 9 ;; esac'
    run = f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"'
    (image_folder.path / "git").write_text(f"#!/bin/sh\n{refuse}\n{run}\n")
    (image_folder.path / "git").chmod(0o755)
    scrub = await scrub_history(session, str(repository))
    assert scrub.commits == 3 and scrub.objects_before > scrub.objects_after
    assert leftovers(repository) == ""
    [folder] = image_folder.state(session)
    assert not list(folder.glob("scrub-*"))


async def test_folder_without_repository_is_unchanged(session: Session, tmp_path: Path) -> None:
    scrub = await scrub_history(session, str(tmp_path))
    assert (scrub.commits, scrub.objects_before, scrub.objects_after) == (0, 0, 0)


async def test_unscrubbable_repository_raises(session: Session, repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    with pytest.raises(ScrubFailed, match="linked worktree"):
        await scrub_history(session, str(tmp_path / "linked"))
    with pytest.raises(ScrubFailed):
        await scrub_history(session, str(tmp_path / "nowhere"))
