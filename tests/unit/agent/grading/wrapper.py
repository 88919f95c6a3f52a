"""The grading wrapper, run on this machine on a real git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from swerl_agent.grading.framing import Framer, Report
from swerl_agent.grading.manifests import WITNESS
from swerl_agent.grading.policy import protected_globs, reserved_names
from swerl_agent.tasks import GroundTruth
from swerl_agent.tasks.diffs import changed_files, named_paths

WRAPPER = Path(__file__).parents[4] / "agent/swerl_agent/grading/grade.sh"
TESTS = ("check.py", "spec/new_check.py", "spec/odd (1|2).py")  # that the task's tests change or make
IN_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")  # as process 1, as in a Pod


def grade(
    repository: Path,
    payload: Path,
    *,
    patch: str,
    script: str = "true",
    limit: int = 120,
    under: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    targets: tuple[str, ...] = ("tests/test_a.py",),
    test_patch: str = "",
    environment: Mapping[str, str] | None = None,
) -> Report:
    of_tests = "".join(f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n" for name in TESTS)
    ground_truth = GroundTruth("true", "", of_tests, ("tests/t.py::test_a",), ("tests/t.py::test_b",))
    files = {
        "eval.sh": script,
        "patch.diff": patch,
        "protected": "".join(glob + "\n" for glob in protected_globs(ground_truth, ["locked/*"], hidden)),
        "exempt": "locked/open.txt\n",
        "reserved": "".join(name + "\n" for name in reserved_names(ground_truth)),
        "tests.diff": test_patch,
        "targets": "".join(path + "\n" for path in targets),
        "closed": "",
        "created": "".join(each.path + "\0" for each in changed_files(patch) if each.added),
        "named": "".join(path + "\0" for path in named_paths(patch)),
    }
    for path in WITNESS.values():
        (payload / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WRAPPER.parent / path, payload / path)
    for name in ("scrub_history.sh", "work_tree.sh", "survey.sh"):
        shutil.copy(WRAPPER.with_name(name), payload / f"{name}.000")
    for name, text in files.items():
        content = text.encode("utf-8", "surrogateescape")
        half = len(content) // 2
        (payload / f"{name}.000").write_bytes(content[:half])
        (payload / f"{name}.001").write_bytes(content[half:])
    base = git(repository, "rev-parse", "HEAD").strip()
    done = subprocess.run(
        [*under, "bash", str(WRAPPER), base, str(repository), str(limit), "1", str(payload)],
        capture_output=True,
        check=True,
        env=os.environ | {"TMPDIR": str(payload.parent)} | (environment or {}),
    )
    report = Framer().feed(done.stdout)
    assert report, done.stdout.decode()
    return report


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "testbed"
    files = {
        "a.py": "one\ntwo\nthree\n",
        "check.py": "check\n",
        "tests/conftest.py": "hooks\n",
        "tests/test_a.py": "t\n",
    }
    for name, content in (files | {"locked/x.txt": "x\n", "locked/open.txt": "open\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")
    (folder / "kit.egg-info").mkdir()
    (folder / "kit.egg-info" / "entry_points.txt").write_text("installed\n")
    return folder


def diff_of(repository: Path, changes: dict[str, str | None]) -> str:
    for name, content in changes.items():
        path = repository / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    git(repository, "add", "-A", "-f", *changes)
    patch = git(repository, "diff", "--cached", "--binary")
    git(repository, "reset", "-q", "--hard")
    return patch
