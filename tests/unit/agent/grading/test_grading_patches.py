"""Patches of every kind and each way of applying them, by the wrapper on this machine on real git repositories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .wrapper import diff_of, git, grade, repository

__all__ = ["repository"]

HUNK = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n"
NEW = "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+new\n"


@pytest.mark.parametrize(
    ("patch", "stage", "applied"),
    [
        (HUNK + " one\n-two\n+2\n three\n", "eval", "git apply --verbose"),
        (HUNK + " zero\n-two\n+2\n three\n", "eval", "patch --batch --forward --fuzz=5"),
        (HUNK + " x\n-y\n+2\n z\n", "apply_failed", ""),
        (NEW + HUNK + " x\n-y\n+2\n z\n", "apply_failed", ""),
        ("not a patch\n", "apply_failed", ""),
        ("", "eval", ""),
    ],
)
def test_apply_ladder(repository: Path, tmp_path: Path, patch: str, stage: str, applied: str) -> None:
    report = grade(repository, tmp_path / "p", patch=patch)
    assert (report.stage, report.applied) == (stage, applied)


@pytest.mark.parametrize("name", ["a/.git/extra", '"a/\\056git/extra"', "a/.git/hooks/post-checkout"])
def test_patch_that_writes_into_the_repositorys_own_folder_is_refused(
    repository: Path, tmp_path: Path, name: str
) -> None:
    """git refuses such a path and patch(1) does not; the policy, which does, is not asked here."""
    new = NEW.replace("a/new.py", name).replace("b/new.py", name.replace("a/", "b/", 1))
    report = grade(repository, tmp_path / "p", patch=new, script="echo began")
    assert report.stage == "git_changed" and b"began" not in report.log
    assert list((repository / ".git").rglob("extra")) or (repository / ".git/hooks/post-checkout").exists()


def test_patch_to_an_older_state_of_the_file_is_merged(repository: Path, tmp_path: Path) -> None:
    """As where an image's own commit changed lines around those of the patch."""
    long = [f"line {number}\n" for number in range(20)]
    (repository / "a.py").write_text("".join(long))
    git(repository, "commit", "-q", "-a", "-m", "long")
    patch = diff_of(repository, {"a.py": "".join(long).replace("line 10\n", "line ten\n")})
    (repository / "a.py").write_text("".join(["new\n", *long]).replace("line 8\n", "line eight\n"))
    git(repository, "commit", "-q", "-a", "-m", "the image's own")
    report = grade(repository, tmp_path / "p", patch=patch, script="cat a.py")
    assert (report.stage, report.applied) == ("eval", "git apply --verbose --3way")
    assert b"line eight\nline 9\nline ten\n" in report.log


def test_files_of_a_failed_apply_are_removed_before_the_next(repository: Path, tmp_path: Path) -> None:
    """git applies one of two hunks with --reject; patch then applies both, to the files as they were."""
    patch = NEW + HUNK + " zero\n-two\n+2\n three\n"
    report = grade(repository, tmp_path / "p", patch=patch, script="git status --porcelain; cat a.py new.py")
    assert report.log.decode().split("\n") == [
        " M a.py", "?? kit.egg-info/", "?? new.py", "one", "2", "three", "new", ""
    ]  # fmt: skip


@pytest.mark.parametrize(("blobs", "applied"), [(True, "git apply --verbose --3way"), (False, "before")])
def test_patch_that_is_applied_already_counts_as_applied(
    repository: Path, tmp_path: Path, blobs: bool, applied: str
) -> None:
    patch = diff_of(repository, {"a.py": "one\n2\nthree\n"})
    patch = patch if blobs else re.sub("index .*\n", "", patch)
    (repository / "a.py").write_text("one\n2\nthree\n")
    git(repository, "commit", "-q", "-a", "-m", "same")
    report = grade(repository, tmp_path / "p", patch=patch, script="cat a.py")
    assert (report.stage, report.applied, report.log) == ("eval", applied, b"one\n2\nthree\n")


def change_of(repository: Path, *commands: tuple[str, ...]) -> str:
    """The diff that git commands make of the repository, which is left as it was."""
    for command in commands:
        git(repository, *command)
    patch = git(repository, "diff", "--cached", "--binary", "-M")
    git(repository, "reset", "-q", "--hard")
    return patch


@pytest.mark.parametrize(
    ("commands", "script", "printed"),
    [
        ([("rm", "-q", "a.py")], "ls a.py 2>&1 | grep -c 'No such'", b"1\n"),
        ([("mv", "a.py", "b.py")], "ls a.py b.py 2> /dev/null", b"b.py\n"),
        ([("update-index", "--chmod=+x", "a.py")], "[ -x a.py ] && echo yes", b"yes\n"),
    ],
    ids=["deletion alone", "rename alone", "mode alone"],
)
def test_patch_that_adds_no_line_is_one(
    repository: Path, tmp_path: Path, commands: list[tuple[str, ...]], script: str, printed: bytes
) -> None:
    report = grade(repository, tmp_path / "p", patch=change_of(repository, *commands), script=script)
    assert (report.stage, report.log) == ("eval", printed)


@pytest.mark.parametrize("name", ["plain.bin", "with space.bin", "t\u00e9st.bin", 'quo"te.bin', "new/folder/x.bin"])
@pytest.mark.parametrize("content", [b"\0\xff\n\0", b"", b"no newline at the end", b"carriage\r\nreturn\r\n"])
def test_files_of_any_name_and_content_arrive(repository: Path, tmp_path: Path, name: str, content: bytes) -> None:
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    patch = change_of(repository, ("add", "-f", name))
    report = grade(repository, tmp_path / "p", patch=patch, script=f"cat '{name}'")
    assert (report.stage, report.log) == ("eval", content)


def test_file_that_the_task_tests_create_is_removed_first(repository: Path, tmp_path: Path) -> None:
    """Else the script could not apply the tests."""
    patch = diff_of(repository, {"spec/new_check.py": "m\n", "spec/odd (1|2).py": "m\n", "a.py": "kept\n"})
    report = grade(repository, tmp_path / "p", patch=patch, script="ls spec 2> /dev/null; cat a.py")
    assert report.log == b"kept\n"
    assert r"removed\ spec/new_check.py" in report.notes
