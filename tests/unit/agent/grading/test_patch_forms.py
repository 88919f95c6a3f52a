"""Which forms of patches apply and which are refused: the table of docs/tasks.md, row by row, on real repositories."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from swerl_agent.grading.payload import as_bytes
from swerl_agent.grading.policy import forbidden
from swerl_agent.grading.predictions import PredictionError, read_predictions

from .wrapper import diff_of, git, grade, repository

__all__ = ["repository"]

DOCS = Path(__file__).parents[4] / "docs/tasks.md"
SCRIPT = Path(__file__).parents[4] / "agent/swerl_agent/grading/work_tree.sh"
FIXED = "one\n2\nthree\n"
HUNK = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
HEADER = "diff --git a/pkg/b.py b/pkg/b.py\n--- a/pkg/b.py\n+++ b/pkg/b.py\n"
PLAIN = HEADER + HUNK
MAIL = "From 0123 Mon Sep 17 00:00:00 2001\nFrom: a <a@b>\nSubject: [PATCH] fix\n\n---\n pkg/b.py | 2 +-\n\n"
LINK = "diff --git a/sub b/sub\n{}--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-Subproject commit {}\n+Subproject commit {}\n"
COLOURED = "\x1b[1mdiff --git a/pkg/b.py b/pkg/b.py\x1b[m\n\x1b[1m--- a/pkg/b.py\x1b[m\n\x1b[1m+++ b/pkg/b.py\x1b[m\n"


@dataclass(frozen=True)
class Form:
    """A row: what the patch is, and what is in the tree once it is applied; None where it is refused."""

    patch: str | Callable[[Path], str]
    result: dict[str, bytes | None] | None
    executable: str = ""  # a file that can be executed then, and not before


def changed(**changes: str | None) -> Callable[[Path], str]:
    return lambda repository: diff_of(repository, {name.replace("__", "/"): text for name, text in changes.items()})


def moved(repository: Path) -> str:
    git(repository, "mv", "pkg/b.py", "pkg/c.py")
    (repository / "pkg/c.py").write_text("one\ntwo\nthree\nfour\n")
    git(repository, "add", "-A", "pkg")
    patch = git(repository, "diff", "--cached", "-M30%")
    git(repository, "reset", "-q", "--hard")
    assert "rename to pkg/c.py" in patch
    return patch


def written(name: str, content: bytes) -> Callable[[Path], str]:
    def patch(repository: Path) -> str:
        (repository / name).write_bytes(content)
        git(repository, "add", "-f", name)
        text = git(repository, "diff", "--cached", "--binary")
        git(repository, "reset", "-q", "--hard")
        return text

    return patch


def crlf_file(repository: Path, attributes: str) -> None:
    (repository / ".gitattributes").write_text(attributes)
    (repository / "pkg/b.py").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    git(repository, "add", ".gitattributes", "pkg")
    git(repository, "commit", "-qm", "CRLF")


def to_a_crlf_file(repository: Path) -> str:
    crlf_file(repository, "")
    return written("pkg/b.py", b"one\r\n2\r\nthree\r\n")(repository)


def to_a_converted_file(repository: Path) -> str:
    crlf_file(repository, "*.py text eol=crlf\n")
    return PLAIN


def untracked(repository: Path) -> str:
    patch = changed(new__x="same\n")(repository)
    (repository / "new").mkdir()
    (repository / "new/x").write_text("same\n")
    return patch + PLAIN


def untracked_other(repository: Path) -> str:
    patch = untracked(repository)
    (repository / "new/x").write_text("other\n")
    return patch


def of_a_changed_image(repository: Path) -> str:
    (repository / "pkg/b.py").write_text("zero\none\ntwo\nthree\n")
    return PLAIN.replace("@@ -1,3 +1,3 @@\n", "@@ -1,4 +1,4 @@\n zero\n")


APPLIED: dict[str, bytes | None] = {"pkg/b.py": FIXED.encode()}
FORMS = {
    "`git diff`": Form(PLAIN, APPLIED),
    "`diff -u` with `a/` and `b/`": Form(HEADER.partition("\n")[2] + HUNK, APPLIED),
    "without the last newline": Form(PLAIN.rstrip("\n"), APPLIED),
    "`git format-patch` (mail)": Form(MAIL + PLAIN + "-- \n2.43.0\n\n", APPLIED),
    "text before the first header": Form("Here is the fix:\n\n" + PLAIN, APPLIED),
    "CRLF line ends of the patch, LF in the file": Form(PLAIN.replace("\n", "\r\n"), APPLIED),
    "CRLF in the file and in the patch": Form(to_a_crlf_file, {"pkg/b.py": b"one\r\n2\r\nthree\r\n"}),
    "LF in the patch, CRLF in the file by `eol=crlf`": Form(
        to_a_converted_file, {"pkg/b.py": b"one\r\n2\r\nthree\r\n"}
    ),
    "no newline at the end of a file": Form(written("pkg/b.py", b"one\ntwo"), {"pkg/b.py": b"one\ntwo"}),
    "new, empty and deleted files": Form(changed(new="", **{"a.py": None}), {"new": b"", "a.py": None}),
    "rename with changes": Form(moved, {"pkg/b.py": None, "pkg/c.py": b"one\ntwo\nthree\nfour\n"}),
    "mode": Form(
        "diff --git a/pkg/b.py b/pkg/b.py\nold mode 100644\nnew mode 100755\n",
        {"pkg/b.py": b"one\ntwo\nthree\n"},
        executable="pkg/b.py",
    ),
    "binary (`git diff --binary`)": Form(written("x.bin", b"\0\xff"), {"x.bin": b"\0\xff"}),
    "bytes that are no UTF-8": Form(written("x.txt", b"caf\xe9\n"), {"x.txt": b"caf\xe9\n"}),
    "spaces, quotes, Unicode in names": Form(written('a "b" é.txt', b"x\n"), {'a "b" é.txt': b"x\n"}),
    "lines moved, or with other lines around": Form(PLAIN.replace(" one\n", " zero\n"), APPLIED),
    "to a file that the image changed after its commit": Form(
        of_a_changed_image, {"pkg/b.py": b"zero\none\n2\nthree\n"}
    ),
    "a new file that the image has, with the same content": Form(untracked, {"new/x": b"same\n", **APPLIED}),
    "a submodule's commit": Form(LINK.format("index 1..2 160000\n", "1" * 40, "2" * 40), None),
    "a new file that the image has, with other content": Form(untracked_other, None),
    "lines that are not in the file": Form(PLAIN.replace("-two\n", "-2.0\n").replace(" three\n", " 3\n"), None),
    "without `a/` and `b/` (`diff.noprefix`)": Form(PLAIN.replace("a/pkg", "pkg").replace("b/pkg", "pkg"), None),
    "colour codes": Form(COLOURED + HUNK.replace("-two", "\x1b[31m-two\x1b[m").replace("+2", "\x1b[32m+2\x1b[m"), None),
    "binary without content (`Binary files differ`)": Form(
        "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0000000..1111111\n"
        "Binary files /dev/null and b/x.bin differ\n",
        None,
    ),
    "no patch at all": Form("the fix is to change two to 2\n", None),
}


@pytest.fixture
def package(repository: Path) -> Path:
    (repository / "pkg").mkdir()
    (repository / "pkg/b.py").write_text("one\ntwo\nthree\n")
    git(repository, "add", "pkg")
    git(repository, "commit", "-qm", "package")
    return repository


@pytest.mark.parametrize("name", FORMS)
def test_form_of_patch_applies_or_is_refused(package: Path, tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    patch = form.patch if isinstance(form.patch, str) else form.patch(package)
    assert forbidden(patch) is None
    assert executable(package, form.result or ()) == set()
    text = patch if patch.endswith("\n") else patch + "\n"
    report = grade(package, tmp_path / "p", patch=text)
    if form.result is None:
        assert report.stage == "apply_failed", report
        return
    assert report.stage == "eval", report.log.decode()
    assert report.applied in documented_ways()
    found = {path: (package / path).read_bytes() if (package / path).exists() else None for path in form.result}
    assert found == form.result and as_bytes(text)
    assert executable(package, form.result) == ({form.executable} if form.executable else set())


def executable(folder: Path, names: Iterable[str]) -> set[str]:
    """Those of the files that are there and that their owner may execute."""
    return {name for name in names if (folder / name).exists() and (folder / name).stat().st_mode & stat.S_IXUSR}


def section_on_forms() -> str:
    return DOCS.read_text().partition("## Forms of patches")[2].partition("\n## ")[0]


def documented_ways() -> list[str]:
    """Values of `report["applied"]`, in the order of the table."""
    return re.findall(r"^\| `([^`\"]+)` \| (?!applies|refused)", section_on_forms(), re.MULTILINE)


def test_documentation_has_every_way_of_applying_in_the_order_of_the_script() -> None:
    ladder = re.search(r"ladder=\((.*?)\)\s*rung", re.sub("#.*", "", SCRIPT.read_text()), re.DOTALL)
    words = re.findall(r'"([^"]+)"', ladder[1]) if ladder else []
    attributes = " with the attributes of the repository"
    ways = [re.sub("^images(.*)", rf"git\1{attributes}", way.partition(" --unified")[0]) for way in words]
    assert documented_ways() == [*(re.sub("^repo", "git", way) for way in ways), "before"]
    assert f"{('Four', 'Five', 'Six')[len(words) - 4]} ways are tried" in section_on_forms()


def test_way_by_the_attributes_of_the_repository_is_named(package: Path, tmp_path: Path) -> None:
    report = grade(package, tmp_path / "p", patch=to_a_converted_file(package))
    assert report.applied == documented_ways()[3]


def test_table_of_the_documentation_has_these_forms() -> None:
    rows = re.findall(r"^\| (.+?) \| (applies|refused)", section_on_forms(), re.MULTILINE)
    assert dict(rows) == {name: "applies" if form.result is not None else "refused" for name, form in FORMS.items()}


def test_file_of_predictions_with_a_byte_order_mark_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "preds.json"
    path.write_text("\ufeff[]", encoding="utf-8")
    with pytest.raises(PredictionError, match="BOM"):
        read_predictions(path)


def test_image_as_it_was_shipped_is_the_baseline(package: Path, tmp_path: Path) -> None:
    """Edited, deleted and untracked files of the image: not the patch's, not put back, and reported."""
    (package / "a.py").write_text("changed by the image\n")
    (package / "check.py").write_text("changed by the image too\n")
    (package / "locked/x.txt").unlink()
    (package / "build").mkdir()
    (package / "build/lib.py").write_bytes(b"a\r\n")
    forged = diff_of_image(package, "check.py", "forged\n")
    report = grade(package, tmp_path / "p", patch=PLAIN + forged, script="cat a.py check.py; ls locked build")
    assert report.log == b"changed by the image\nchanged by the image too\nbuild:\nlib.py\n\nlocked:\nopen.txt\n"
    assert report.notes == (r"restored\ check.py",)
    assert set(report.dirty) == {"a.py", "check.py", "locked/x.txt", "build/lib.py", "kit.egg-info/entry_points.txt"}


def test_between_attempts_the_tree_is_as_the_image_had_it(package: Path, tmp_path: Path) -> None:
    """git applies one of two hunks with --reject; patch then applies both."""
    (package / "a.py").write_text("changed by the image\n")
    report = grade(package, tmp_path / "p", patch=PLAIN.replace(" one\n", " zero\n"), script="cat a.py pkg/b.py")
    assert report.applied.startswith("patch --batch")
    assert report.log == b"changed by the image\n" + FIXED.encode()


@pytest.mark.parametrize("state", ["index.lock", "skip-worktree", "attributes"])
def test_repository_of_the_image_may_be_in_any_state(package: Path, tmp_path: Path, state: str) -> None:
    (package / "a.py").write_text("changed by the image\n")
    if state == "index.lock":
        (package / ".git/index.lock").touch()
    elif state == "skip-worktree":
        git(package, "update-index", "--skip-worktree", "a.py", "check.py")
    else:
        (package / ".git/info/attributes").write_text("* filter=x text eol=crlf\n")
        git(package, "config", "filter.x.smudge", "sed s/2/0/")
    patch = PLAIN + diff_of_image(package, "check.py", "forged\n")
    report = grade(package, tmp_path / "p", patch=patch, script="cat a.py check.py pkg/b.py")
    assert report.log == b"changed by the image\ncheck\n" + FIXED.encode()


def diff_of_image(repository: Path, name: str, content: str) -> str:
    """The diff that changes a file of one line from what it is in the image."""
    old = (repository / name).read_text()
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{old}+{content}"
