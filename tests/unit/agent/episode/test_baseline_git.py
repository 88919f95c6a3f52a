"""Patches with the gits, repositories and clocks that images have."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from .conftest import git
from .patches import COMMIT, FIX, applied, patch_after


def put_git_first(monkeypatch: pytest.MonkeyPatch, folder: Path, condition: str, command: str) -> None:
    """Put a git on PATH that runs `command` where the words `$*` match `condition`, and then the real one."""
    folder.mkdir()
    script = f'#!/bin/sh\ncase " $* " in {condition}) {command} ;; esac\nexec {shutil.which("git")} "$@"\n'
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_baseline_that_cannot_be_taken_leaves_nothing(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(image.parent))
    put_git_first(monkeypatch, image.parent / "bin", "*' add -A '*", "echo 'no space left' >&2; exit 128")
    assert "no space left" in patch_after(image, "true").left_out[0]
    assert not list(image.parent.glob(".swerl-tree-*"))


def test_changes_of_tracked_files_are_the_patch_where_new_files_take_too_long(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_git_first(monkeypatch, image.parent / "bin", "*' ls-files -o '*", f"[ ! -e {image.parent}/slow ] || sleep 60")
    commands = [FIX, "rm old.py; echo x > new.py", f"touch {image.parent}/slow"]
    patch = patch_after(image, *commands, diff_timeout=2)
    assert {"+answer = 42", "deleted file mode 100644"} <= set(patch.text.splitlines()) and "new.py" not in patch.text
    assert patch.left_out == ("new files: git did not end in time",)


def test_repository_of_sha256_objects(image: Path) -> None:
    shutil.rmtree(image / ".git")
    git(image, "init", "-q", "--object-format=sha256")
    git(image, "add", "-A", "-f")
    git(image, "commit", "-qm", "base")
    patch = patch_after(image, FIX, "printf '\\0\\1' > bin", COMMIT)
    assert "+answer = 42\n" in patch.text and patch.head_moved and patch.left_out == ()
    clean = image.parent / "clean"
    git(image, "worktree", "add", "-q", "--detach", str(clean), "HEAD~1")
    applied(patch, clean)
    assert (clean / "bin").read_bytes() == b"\0\1"


def test_change_in_the_second_of_its_file_and_the_baseline_is_in_the_patch(repository: Path) -> None:
    time.sleep(1 - time.time() % 1)  # the rest happens within a second, unless the machine is busy
    (repository / "kit.py").write_text("answer = 41\n")
    assert "+answer = 42\n" in patch_after(repository, "echo answer = 42 > kit.py; sleep 1.1").text
