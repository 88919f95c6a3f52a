"""A git repository with commits after its HEAD, for tests of what removes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "gc.auto=0", "-c", "protocol.file.allow=always"]


def git(folder: Path, *arguments: str) -> str:
    """Output of a git command, stripped; bytes that are no UTF-8 become surrogates."""
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def commit(folder: Path, name: str) -> str:
    """Commit a new file `name`; the commit's hash."""
    (folder / name).write_text(f"content of {name}\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", name)
    return git(folder, "rev-parse", "HEAD")


def repository_with_later_commits(parent: Path) -> Path:
    """A clone at an old commit; the fix is in its upstream's branches, a stash, a reflog, packed and loose objects."""
    upstream, folder = parent / "upstream", parent / "repo"
    upstream.mkdir()
    git(upstream, "init", "-q", "-b", "main")
    commit(upstream, "older")
    commit(upstream, "old")
    git(upstream, "tag", "-a", "v1", "-m", "v1")
    base = commit(upstream, "base")
    commit(upstream, "fix")
    git(upstream, "tag", "-a", "v2", "-m", "v2")
    git(upstream, "tag", "blob", git(upstream, "rev-parse", "HEAD:fix"))
    git(parent, "clone", "-q", str(upstream), str(folder))
    git(folder, "repack", "-a", "-d", "-q")
    git(folder, "checkout", "-q", "-b", "topic")
    commit(folder, "fix once more")
    (folder / "old").write_text("fix in a stash\n")
    git(folder, "stash")
    git(folder, "checkout", "-q", "main")
    git(folder, "reset", "-q", "--hard", base)
    (folder / "old").write_text("changed in the working tree\n")
    (folder / "new").write_text("untracked\n")
    return folder
