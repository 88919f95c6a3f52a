"""The patch of a work tree, whatever became of its repository: real git in real folders."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode.baseline import MAX_PATCH, NoRepository, Patch
from swerl_agent.sandbox import CommandResult

from .conftest import Shell, git
from .patches import COMMIT, FIX, IDENTITY, applied, patch_after

# What an agent does to its repository besides the fix, after which the patch is the fix alone.
STATES = {
    "nothing": "true",
    "a commit": COMMIT,
    "a commit on another branch": f"git checkout -qb other; {COMMIT}",
    "a commit, and HEAD on the old branch": f"git checkout -q -b other; {COMMIT}; git symbolic-ref HEAD refs/heads/x",
    "a commit that is undone but for the files": f"{COMMIT}; git reset -q HEAD~1",
    "a stash that is applied again": f"{IDENTITY}; git stash -q; git stash apply -q",
    "a detached HEAD": f"{COMMIT}; git checkout -q --detach",
    "an orphan branch": "git checkout -q --orphan fresh",
    "an empty index": "git read-tree --empty",
    "a lock of the index": "touch .git/index.lock",
    "an index that is none": "echo broken > .git/index",
    "an index that blocks who reads it": "rm .git/index; mkfifo .git/index",
    "a HEAD that is none": "echo broken > .git/HEAD",
    "no repository": "rm -rf .git",
    "another repository": f"rm -rf .git; git init -q; {COMMIT}",
    "no objects": "rm -rf .git/objects",
    "a file in the place of the repository": "rm -rf .git; echo gitdir: /nowhere > .git",
    "colours": "git config color.ui always; git config color.diff always",
    "colours for all": "git config --global color.ui always; git config --global diff.noprefix true",
    "no prefixes": "git config diff.noprefix true",
    "other prefixes": "git config diff.mnemonicPrefix true; git config diff.srcPrefix x/",
    "an external diff": "git config diff.external /bin/false",
    "an external diff by variable": "echo export GIT_EXTERNAL_DIFF=false >> ~/.bashrc; export GIT_EXTERNAL_DIFF=false",
    "a file-system monitor": "printf '#!/bin/sh\nsleep 100' > m; chmod +x m; git config core.fsmonitor ./m; rm m",
    "an ignored file mode": "git config core.fileMode false",
    "line ends by configuration": "git config core.autocrlf true; git config core.eol crlf",
    "files assumed unchanged": "git update-index --assume-unchanged kit.py; git update-index --skip-worktree old.py",
    "attributes of the repository": "mkdir -p .git/info; echo '* binary' > .git/info/attributes",
    "excludes of the repository": "mkdir -p .git/info; echo '*' > .git/info/exclude",
    "a filter": "git config filter.x.clean 'sed s/42/0/'; echo '*.py filter=x' > .git/info/attributes",
    "variables of git": (
        "echo export GIT_DIR=/nowhere GIT_INDEX_FILE=/nowhere GIT_WORK_TREE=/nowhere GIT_CONFIG_COUNT=1"
        " GIT_CONFIG_KEY_0=diff.external GIT_CONFIG_VALUE_0=false >> ~/.bashrc; . ~/.bashrc"
    ),
    "a text conversion": (
        "git config diff.x.textconv 'echo 42 #'; git config diff.x.command false;"
        " mkdir -p .git/info; echo '* diff=x' > .git/info/attributes"
    ),
    "hooks": "printf '#!/bin/sh\nexit 1' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "a pipe and a socket": "mkfifo pipe; python3 -c 'import socket as s; s.socket(s.AF_UNIX).bind(\"sock\")'",
    "a folder of another owner": "[ $(id -u) != 0 ] || chown -R 1000:1000 .",
    "a commit of ignored rubbish": f"mkdir -p out; echo x > out/x.o; {COMMIT}",
}


@pytest.mark.parametrize("state", STATES)
def test_patch_is_the_agents_own_change(image: Path, state: str) -> None:
    patch = patch_after(image, FIX, STATES[state])
    assert patch.left_out == ()
    assert [line for line in patch.text.splitlines() if line[:1] in "+-"] == [
        "--- a/kit.py", "+++ b/kit.py", "-answer = 41", "+answer = 42"
    ]  # fmt: skip
    assert patch.text == patch_after_a_plain_fix(image.parent)


def patch_after_a_plain_fix(parent: Path) -> str:
    other_folder = parent / "other"
    other_folder.mkdir()
    (other_folder / "kit.py").write_text("answer = 41\n")
    git(other_folder, "init", "-q")
    git(other_folder, "add", "-A")
    (other_folder / "kit.py").write_text("answer = 42\n")
    return git(other_folder, "-c", "color.ui=never", "-c", "diff.noprefix=false", "diff", "--full-index")


def test_every_kind_of_change_applies_to_the_image(image: Path) -> None:
    shutil.copytree(image, image.parent / "graded", symlinks=True)
    commands = [
        "printf 'v\\r\\n' > crlf.txt; printf 'no newline' > 'a b\"c.txt'; printf '\\0\\1' > bin; ln -s kit.py link",
        "rm old.py; mv tox.ini 'tox é.ini'; chmod +x kit.py; echo more >> kept.log; echo b >> build/lib.py",
        "mkdir -p sub/deep; echo new > sub/deep/new.py; printf '\\377' >> bin",
        f"echo force > out/forced.py; git add -f out/forced.py; {IDENTITY}; git commit -qm x",
    ]
    patch = patch_after(image, *commands)
    assert patch.left_out == ()
    applied(patch, image.parent / "graded")
    for name in ("crlf.txt", 'a b"c.txt', "bin", "link", "tox é.ini", "kept.log", "build/lib.py", "out/forced.py"):
        assert (image.parent / "graded" / name).read_bytes() == (image / name).read_bytes(), name
    assert not (image.parent / "graded/old.py").exists() and os.access(image.parent / "graded/kit.py", os.X_OK)


@pytest.mark.parametrize(
    "commands",
    [
        "mkdir new; cd new; git init -q; echo x > inner.py",
        f"mkdir new; cd new; git init -q; echo x > inner.py; {COMMIT}",
        "mkdir new; cd new; echo gitdir: /nowhere > .git; echo x > inner.py",
    ],
    ids=["without a commit", "with a commit", "broken"],
)
def test_files_of_a_repository_within_the_tree_are_files_like_others(image: Path, commands: str) -> None:
    patch = patch_after(image, FIX, commands, "git add -A; true", twice=True)
    assert "+answer = 42\n" in patch.text and "+++ b/new/inner.py\n" in patch.text and patch.left_out == ()


@pytest.mark.parametrize("ending", ["true", f"{COMMIT}; cd ..; {COMMIT}"], ids=["without commits", "with commits"])
def test_files_of_a_repository_within_another_are_in_the_patch(image: Path, ending: str) -> None:
    patch = patch_after(image, f"mkdir -p a/b; cd a; git init -q; cd b; git init -q; echo x > inner.py; {ending}")
    assert "+++ b/a/b/inner.py\n" in patch.text and "Subproject" not in patch.text and patch.left_out == ()


def test_repository_within_the_tree_that_cannot_be_read_is_named(image: Path) -> None:
    patch = patch_after(image, FIX, "mkdir new; cd new; git init -q; echo x > inner.py; echo broken > .git/index")
    assert "+answer = 42\n" in patch.text
    assert patch.left_out == ("new/: a repository within the tree that cannot be read",)


def test_files_that_the_image_ignores_are_no_change_once_the_agent_does_not(image: Path) -> None:
    patch = patch_after(image, "echo > .gitignore; echo new > out/new.txt")
    assert "+++ b/out/new.txt\n" in patch.text and "built.o" not in patch.text and patch.left_out == ()
    git(image, "checkout", "-q", ".gitignore")
    patch = patch_after(image, "sleep 1; rm .gitignore; echo x > out/built.o")
    assert "built.o" not in patch.text
    assert patch.left_out == ("out/built.o: a file that the image holds and ignores",)


def test_patch_has_no_line_of_the_shell(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDPATH", ".:/tmp")
    assert patch_after(image, "mkdir new; cd new; git init -q; echo x > inner.py").text.startswith("diff --git ")


def test_repository_that_the_image_holds_within_the_tree_is_compared_by_its_files(image: Path) -> None:
    inner = image / "vendored"
    inner.mkdir()
    (inner / "x.py").write_text("x = 1\n")
    git(inner, "init", "-q")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "inner")
    git(image, "add", "vendored")
    git(image, "commit", "-qm", "a submodule")
    assert patch_after(image, "true") == Patch()
    patch = patch_after(image, f"cd vendored; echo x = 2 > x.py; {COMMIT}")
    assert "+x = 2\n" in patch.text and "Subproject" not in patch.text


def test_large_file_is_named_and_the_text_is_the_patch(image: Path) -> None:
    patch = patch_after(image, FIX, "head -c 12582912 /dev/urandom > core; mkdir -p out; cp core out/ignored")
    assert "+answer = 42\n" in patch.text and patch.left_out == ("core: 12582912 bytes",)


def test_large_file_of_the_image_counts_once_it_changes(image: Path) -> None:
    (image / "data.bin").write_bytes(bytes(9 << 20))
    os.utime(image / "data.bin", (1, 1))
    assert patch_after(image, FIX).left_out == ()
    assert patch_after(image, "sleep 1; echo >> data.bin").left_out == ("data.bin: 9437185 bytes",)


def test_largest_parts_of_an_oversized_patch_are_named(image: Path) -> None:
    noise = "for name in b1 b2; do head -c 6000000 /dev/urandom > $name; done"
    patch = patch_after(image, FIX, noise, "echo text > small.txt", twice=True)
    assert {"+answer = 42", "+text"} <= set(patch.text.splitlines())
    assert len(patch.text) <= MAX_PATCH
    assert [line.partition(":")[0] for line in patch.left_out] in (["b1"], ["b2"])
    applied(patch, Path(git(image, "worktree", "add", "-q", "--detach", "../clean", "HEAD") or image.parent / "clean"))


@pytest.mark.parametrize("name", ["a.bin", "kit.py", "z.txt"])
def test_part_of_a_patch_applies_by_itself(image: Path, name: str) -> None:
    """A binary file's part ends with an empty line."""
    patch = patch_after(image, FIX, "printf '\\0\\1' > a.bin; echo z > z.txt").of([name])
    assert patch.text.count("diff --git ") == 1
    clean = image.parent / "clean"
    git(image, "worktree", "add", "-q", "--detach", str(clean), "HEAD")
    applied(patch, clean)


def test_removed_baseline_is_reported(image: Path) -> None:
    patch = patch_after(image, FIX, "rm -rf ../.swerl-tree-*")
    assert patch.text == "" and "was removed" in patch.left_out[0]


def test_image_without_a_repository_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "testbed"
    with pytest.raises(NoRepository, match=r"has no folder .*/testbed; give the repository's folder as `workdir`"):
        patch_after(folder, "true", shell=Shell(tmp_path))
    folder.mkdir()
    with pytest.raises(NoRepository, match=r"has no git repository at .*/testbed"):
        patch_after(folder, "true")


def test_file_that_the_image_holds_ignored_is_named_once_it_is_tracked_and_changed(image: Path) -> None:
    assert patch_after(image, FIX, "git add -f out/built.o").left_out == ()
    git(image, "reset", "-q")
    patch = patch_after(image, "sleep 1; echo x > out/built.o; git add -f out/built.o")
    assert patch == Patch("", ("out/built.o: a file that the image holds and ignores",))


def test_git_of_the_model_works_in_a_tree_of_another_owner(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(subprocess.CalledProcessError):
        git(image, "status")
    patch = patch_after(image, FIX, "git status --porcelain > ../status")
    assert " M kit.py" in (image.parent / "status").read_text()
    assert "+answer = 42\n" in patch.text and patch.left_out == ()


class UnprivilegedShell(Shell):
    """Runs commands as a user who may not read everything."""

    async def run(self, command: str, **how: Any) -> CommandResult:
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
        return await super().run(shlex.join([*user, "bash", "-c", command]), **how)


def test_unreadable_file_is_named_and_the_rest_is_the_patch() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        folder = Path(parent) / "testbed"
        folder.mkdir()
        (folder / "kit.py").write_text("answer = 41\n")
        (folder / "kept.py").write_text("x\n")
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        if os.getuid() == 0:
            subprocess.run(["chown", "-R", "65534:65534", parent], check=True)
        hide = "echo x > hidden.py; mkdir shut; echo x > shut/x.py; echo y > kept.py; chmod 0 hidden.py shut kept.py"
        patch = patch_after(folder, FIX, hide, shell=UnprivilegedShell(folder))
        (folder / "shut").chmod(0o700)
    assert "+answer = 42\n" in patch.text and "hidden" not in patch.text
    named = {line.partition(":")[0] for line in patch.left_out}
    assert named == {"hidden.py", "kept.py", "shut/"}, patch.left_out
