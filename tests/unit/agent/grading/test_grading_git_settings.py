"""Settings of git that a grading does not take: of the user, the system, the environment and the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .wrapper import diff_of, git, grade, repository

__all__ = ["repository"]

FILTER = "* filter=own diff=own merge=own\n"
PROGRAMS = ("core.fsmonitor", "diff.external", "filter.own.clean", "filter.own.smudge", "diff.own.textconv")


def changes(repository: Path) -> str:
    return diff_of(repository, {"a.py": "one\ntwo\nthree\nfour\n", "tests/conftest.py": "changed\n"})


def program(folder: Path) -> tuple[Path, Path]:
    """A program, and the file that it leaves when it runs."""
    path, ran = folder / "program", folder / "ran"
    by_kind = '[ $# -gt 0 ] || exec cat\n[ $# -ne 1 ] || exec cat "$1"\n'  # a filter has no argument, a conversion one
    path.write_text(f"#!/bin/sh\ntouch {ran}\n{by_kind}")
    path.chmod(0o755)
    return path, ran


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_repositorys_configuration_do_not_run(repository: Path, tmp_path: Path, name: str) -> None:
    patch = changes(repository)
    path, ran = program(tmp_path)
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/attributes").write_text(FILTER)
    git(repository, "config", name, str(path))
    (repository / "a.py").write_text("changed\n")
    git(repository, "diff")
    git(repository, "-c", "core.fsmonitor=false", "checkout", "a.py")
    assert ran.exists()  # it is a program that git would run
    ran.unlink()
    report = grade(repository, tmp_path / "p", patch=patch, script="cat a.py")
    assert report.stage == "eval" and b"four" in report.log
    assert not ran.exists()


@pytest.mark.parametrize("place", ["user", "system", "variables"])
def test_settings_outside_the_repository_change_nothing(repository: Path, tmp_path: Path, place: str) -> None:
    patch = changes(repository)
    path, ran = program(tmp_path)
    settings = {
        "core.fsmonitor": str(path), "core.hooksPath": f"{tmp_path}/hooks", "core.attributesFile": f"{tmp_path}/all",
        "filter.own.clean": str(path), "filter.own.smudge": str(path), "diff.own.textconv": str(path),
        "diff.external": str(path), "diff.noprefix": "true", "apply.whitespace": "error", "core.autocrlf": "true",
    }  # fmt: skip
    (tmp_path / "all").write_text(FILTER)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/post-checkout").symlink_to(path)
    file = tmp_path / {"user": ".gitconfig", "system": "gitconfig", "variables": "unused"}[place]
    for name, value in settings.items():
        git(repository, "config", "--file", str(file), name, value)
    environment = {"HOME": str(tmp_path), "GIT_CONFIG_SYSTEM": str(tmp_path / "gitconfig")}
    if place == "variables":
        pairs = {f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(settings)}
        pairs |= {f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(settings.values())}
        nowhere = dict.fromkeys(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"), "/nowhere")
        environment |= {**pairs, **nowhere, "GIT_CONFIG_COUNT": str(len(settings)), "GIT_EXTERNAL_DIFF": str(path)}
    script = 'cat a.py tests/conftest.py; echo "${GIT_DIR:-none}"'
    report = grade(repository, tmp_path / "p", patch=patch, script=script, environment=environment)
    assert (report.stage, report.notes) == ("eval", (r"restored\ tests/conftest.py",))
    expected = environment.get("GIT_DIR", "none")  # the script has the image's own variables
    assert report.log.decode().split() == ["one", "two", "three", "four", "hooks", expected]
    assert not ran.exists()


def test_tree_of_another_owner_is_graded_by_a_git_that_takes_its_setting_from_files_alone(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = changes(repository)
    old_git = tmp_path / "bin/git"
    old_git.parent.mkdir()
    refuse = 'case "$*" in *safe.directory*) echo "an option without effect" >&2; exit 9 ;; esac'
    run = f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"'
    old_git.write_text(f"#!/bin/sh\n{refuse}\n{run}\n")
    old_git.chmod(0o755)
    environment = {"PATH": f"{old_git.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    status = ["git", "-C", str(repository), "status"]
    assert subprocess.run(status, env=os.environ | environment, capture_output=True).returncode == 128
    for name, value in {"COUNT": "1", "KEY_0": "safe.directory", "VALUE_0": "*"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)  # for the commands of this test
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", "65534:65534", str(repository)], check=True)
    script = 'cat a.py; echo "$HOME"'
    report = grade(repository, tmp_path / "p", patch=patch, script=script, environment=environment)
    assert (report.stage, report.notes) == ("eval", (r"restored\ tests/conftest.py",))
    assert report.log.decode().split() == ["one", "two", "three", "four", str(tmp_path)]
    assert report.scrubbed in ("clean", "removed")
