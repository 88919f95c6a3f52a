"""Git history of a grading Pod: everything later than the base commit is removed before the patch arrives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.git_repository import commit, git, repository_with_later_commits

SCRIPT = Path(__file__).parents[4] / "agent/swerl_agent/grading/scrub_history.sh"
REPACK_LIMIT, SMALL_LIMIT = "1000", "3"  # objects up to which a store is repacked


def scrub(folder: Path, limit: str = REPACK_LIMIT) -> str:
    command = ["bash", str(SCRIPT), str(folder), "HEAD~1", limit]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def contents(folder: Path) -> str:
    """Every object in the store."""
    names = git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    return "\n".join(git(folder, "cat-file", "-p", name) for name in names)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return repository_with_later_commits(tmp_path)


@pytest.mark.parametrize(("limit", "done"), [(REPACK_LIMIT, "removed"), (SMALL_LIMIT, "thinned")])
def test_nothing_later_remains_in_refs_logs_or_objects(repository: Path, limit: str, done: str) -> None:
    state_before = git(repository, "rev-parse", "HEAD"), git(repository, "status", "--porcelain")
    assert "content of fix" in contents(repository)
    assert scrub(repository, limit) == done
    assert "fix" not in contents(repository)
    assert git(repository, "log", "--all", "--reflog", "--format=%s").split() == ["base", "old", "older"]
    assert (git(repository, "rev-parse", "HEAD"), git(repository, "status", "--porcelain")) == state_before
    assert git(repository, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main", "refs/tags/v1"]


@pytest.mark.parametrize("limit", [REPACK_LIMIT, SMALL_LIMIT])
def test_git_history_up_to_the_limit_is_usable(repository: Path, limit: str) -> None:
    scrub(repository, limit)
    assert git(repository, "describe", "--tags").startswith("v1-1-g")
    assert git(repository, "rev-list", "--count", "HEAD") == "3"
    assert "base" in git(repository, "show", "HEAD")
    assert git(repository, "diff", "--stat", "HEAD~1", "HEAD")
    git(repository, "checkout", "-q", "HEAD~1", "--", "old")
    assert (repository / "old").read_text() == "content of old\n"
    git(repository, "commit", "-q", "-a", "--allow-empty", "-m", "work goes on")


@pytest.mark.parametrize("limit", [REPACK_LIMIT, SMALL_LIMIT])
def test_repository_without_later_commits_is_unchanged(tmp_path: Path, limit: str) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "old")
    commit(tmp_path, "base")
    objects_before = sorted((tmp_path / ".git" / "objects").rglob("*"))
    assert scrub(tmp_path, limit) == "clean"
    assert sorted((tmp_path / ".git" / "objects").rglob("*")) == objects_before


def test_second_run_does_nothing(repository: Path) -> None:
    scrub(repository)
    assert scrub(repository) == "clean"


def test_borrowed_objects_are_copied_and_their_owner_is_released(repository: Path, tmp_path: Path) -> None:
    lender, folder = repository.with_name("upstream"), tmp_path / "borrower"
    git(tmp_path, "clone", "-q", "--shared", str(lender), str(folder))
    git(folder, "reset", "-q", "--hard", "HEAD~1")
    assert scrub(folder) == "removed"
    lender.rename(tmp_path / "away")
    assert "fix" not in contents(folder)
    assert (folder / "base").read_text().strip() == git(folder, "show", "HEAD:base")


def test_hooks_of_the_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    assert scrub(repository) == "removed"
    assert not (tmp_path / "hooked").exists()


def test_repository_that_cannot_be_scrubbed_gives_the_reason(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert scrub(tmp_path / "linked") == "failed: a linked worktree cannot be cut off from its repository"
    assert scrub(tmp_path / "nowhere").startswith("failed: there is no repository at")
