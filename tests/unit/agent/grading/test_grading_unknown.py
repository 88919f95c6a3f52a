"""Files of the image that git does not know, which a patch cannot change: run on this machine on real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest
from swerl_agent.tasks.r2e import EVAL_SCRIPT, TREE

from .wrapper import diff_of, git, grade, repository

__all__ = ["repository"]

HIDDEN = ("run_tests.sh", "r2e_tests")
FORGE = "echo PASSED"
SITE = ".venv/lib/python3/site-packages"
IMAGE = {
    "run_tests.sh": "echo honest\n",
    "r2e_tests/test_1.py": "honest\n",
    f"{SITE}/_pytest/runner.py": "honest\n",
    f"{SITE}/plugin/__init__.py": "honest\n",
    "vendored/kit.py": "honest\n",
    "vendored/inner/more.py": "honest\n",
}


@pytest.fixture
def image(repository: Path) -> Path:
    """A repository in which an image put its tests, an ignored environment and a library."""
    (repository / ".gitignore").write_text(".venv\n")
    git(repository, "add", ".gitignore")
    git(repository, "commit", "-q", "-m", "ignored")
    for name, content in IMAGE.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (repository / ".venv/lib64").symlink_to("lib")
    return repository


def state_of(repository: Path) -> dict[str, str]:
    return {name: (repository / name).read_text() for name in IMAGE}


def edit(name: str, old: str = "honest\n", prefixes: tuple[str, str] = ("a/", "b/")) -> str:
    before, after = (prefix + name for prefix in prefixes)
    return f"--- {before}\n+++ {after}\n@@ -1 +1 @@\n-{old}+{FORGE}\n"


def new(name: str, content: str = FORGE, mode: str = "100644") -> str:
    head = f"diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n"
    return head + f"@@ -0,0 +1 @@\n+{content}\n\\ No newline at end of file\n"


def moved(old: str, to: str) -> str:
    return f"diff --git a/{old} b/{to}\nsimilarity index 100%\nrename from {old}\nrename to {to}\n"


def indented(patch: str) -> str:
    return "".join(f"  {line}\n" for line in patch.splitlines())


CHEATS = {
    "rewrites the script that runs the tests": (edit("run_tests.sh", IMAGE["run_tests.sh"]), "restored run_tests.sh"),
    "rewrites a test": (edit("r2e_tests/test_1.py"), "restored r2e_tests/test_1.py"),
    "adds a hook beside the tests": (new("r2e_tests/hook.py"), "removed r2e_tests/hook.py"),
    "moves the tests away, a link in their place": (
        new("other/test_1.py") + moved("r2e_tests/test_1.py", "x.py") + new("r2e_tests", "other", "120000"),
        "restored r2e_tests/test_1.py",
    ),
    "makes a link of the script": (
        moved("run_tests.sh", "x.sh") + new("run_tests.sh", "x.sh", "120000"),
        "restored run_tests.sh",
    ),
    "rewrites pytest in an ignored environment": (
        edit(f"{SITE}/_pytest/runner.py"),
        f"restored {SITE}/_pytest/runner.py",
    ),
    "reaches it through a link": (
        edit(".venv/lib64/python3/site-packages/plugin/__init__.py"),
        f"restored {SITE}/plugin/__init__.py",
    ),
    "adds a program to it": (new(".venv/bin/timeout", mode="100755"), "removed .venv/bin/timeout"),
    "rewrites a library": (edit("vendored/kit.py"), "restored vendored/kit.py"),
    "adds a module to it": (new("vendored/inner/evil.py"), "removed vendored/inner/evil.py"),
    "names it without a folder to leave out": (
        edit("run_tests.sh", IMAGE["run_tests.sh"], prefixes=("", "")),
        "restored run_tests.sh",
    ),
    "names it by another folder": (edit("vendored/kit.py", prefixes=("x/", "y//")), "restored vendored/kit.py"),
    "names it in a roundabout way": (edit("vendored/kit.py", prefixes=("a/./", "b/./")), "restored vendored/kit.py"),
    "names it with a date": (edit("vendored/kit.py 2024-01-01 00:00:00 +0000"), "restored vendored/kit.py"),
    "names it as an index does": (
        "Index: x/vendored/kit.py\n" + "".join(edit("vendored/kit.py").splitlines(keepends=True)[2:]),
        "restored vendored/kit.py",
    ),
    "names it in an indented diff": (indented(edit("vendored/kit.py")), "restored vendored/kit.py"),
    "makes it another mode": (
        "diff --git a/vendored/kit.py b/vendored/kit.py\nold mode 100644\nnew mode 100755\n",
        "restored vendored/kit.py",
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_changed_test_files_are_restored_and_named(image: Path, tmp_path: Path, name: str) -> None:
    patch, note = CHEATS[name]
    report = grade(
        image, tmp_path / "p", patch=patch, script="cat run_tests.sh r2e_tests/*; ls .venv/bin", hidden=HIDDEN
    )
    notes = [each.replace("\\", "") for each in report.notes]
    assert note in notes, (report, notes)
    assert report.log.startswith(b"echo honest\nhonest\n")
    assert b"timeout" not in report.log
    assert state_of(image) == IMAGE
    assert not (image / "r2e_tests").is_symlink()
    assert not (image / "vendored/inner/evil.py").exists()


def test_patch_that_does_not_apply_leaves_the_image_as_it_was(image: Path, tmp_path: Path) -> None:
    patch = edit("vendored/kit.py") + edit("a.py", "no such line\n")
    report = grade(image, tmp_path / "p", patch=patch)
    assert report.stage == "apply_failed"
    assert state_of(image) == IMAGE


def test_file_written_by_the_reference_fix_stays(image: Path, tmp_path: Path) -> None:
    (image / "locked/open.txt").unlink()
    git(image, "rm", "-q", "--cached", "locked/open.txt")
    git(image, "commit", "-q", "-m", "untracked")
    (image / "locked/open.txt").write_text("honest\n")
    report = grade(image, tmp_path / "p", patch=edit("locked/open.txt"), script="cat locked/open.txt")
    assert (report.log, report.notes) == (f"{FORGE}\n".encode(), ())


def test_folder_of_compiled_python_only_accepts_new_files(image: Path, tmp_path: Path) -> None:
    compiled = image / "fresh/__pycache__/x.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.write_text("old\n")
    report = grade(image, tmp_path / "p", patch=new("fresh/x.py"), script="cat fresh/x.py")
    assert (report.log.decode(), report.notes) == (FORGE, ())


def test_files_of_a_repository_within_are_kept_too(image: Path, tmp_path: Path) -> None:
    inner = image / "vendored/inner"
    git(inner, "init", "-q")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "inner")
    report = grade(image, tmp_path / "p", patch=edit("vendored/inner/more.py") + new("vendored/inner/evil.py"))
    assert set(report.notes) == {r"restored\ vendored/inner/more.py", r"removed\ vendored/inner/evil.py"}
    assert state_of(image) == IMAGE
    assert not (inner / "evil.py").exists()


@pytest.mark.parametrize("files", [{"run_tests.sh": f"{FORGE}\n"}, {"r2e_tests/test_1.py": "forged\n"}])
def test_tests_outside_the_work_tree_override_the_patch(
    repository: Path, tmp_path: Path, files: dict[str, str | None]
) -> None:
    outside = tmp_path / "image"
    (outside / "r2e_tests").mkdir(parents=True)
    (outside / "r2e_tests/test_1.py").write_text("honest\n")
    (outside / "run_tests.sh").write_text("cat r2e_tests/test_1.py\n")
    script = EVAL_SCRIPT.replace(TREE, str(repository)).replace("in / /root/;", f"in {tmp_path}/no/ {outside}/;")
    report = grade(repository, tmp_path / "p", patch=diff_of(repository, files), script=script, hidden=HIDDEN)
    assert b"\nhonest\n" in report.log
    assert b"forged" not in report.log
    assert [note.replace("\\", "") for note in report.notes] == [f"removed {name}" for name in files]


@pytest.mark.parametrize("name", ["run_tests.sh", "r2e_tests"])
def test_script_may_replace_tests_from_outside(tmp_path: Path, name: str) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "image"
    for folder, word in ((tree, "forged"), (outside, "honest")):
        (folder / "r2e_tests").mkdir(parents=True)
        (folder / "r2e_tests/test_1.py").write_text(f"{word}\n")
        (folder / "run_tests.sh").write_text(f"echo {word}; cat r2e_tests/test_1.py\n")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "base")
    script = EVAL_SCRIPT.replace(TREE, str(tree)).replace("in / /root/;", f"in {outside}/;")
    report = grade(tree, tmp_path / "p", patch="", script=script)
    assert b"honest\nhonest\n" in report.log
    assert b"forged" not in report.log
    assert (tree / name).is_symlink()
