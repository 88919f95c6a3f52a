"""The git repository of a bundled task, written from the package's sources.

Guarantee: the same sources give the same commit hashes on every machine, so a task can state its base commit. Authors,
dates and messages are fixed, and settings of the user's git have no effect.

`python -m tasks.repository <instance_id> <folder>` writes one; the work tree is clean and HEAD is the base commit.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tasks.catalogue import PACKAGES, CatalogueEntry, find

AUTHORS = (("Mara Lind", "mara@swe-rl.example"), ("Jon Abe", "jon@swe-rl.example"), ("Ines Roy", "ines@swe-rl.example"))
FIRST_COMMIT = datetime(2024, 3, 4, 9, 30, tzinfo=UTC)


class RepositoryError(RuntimeError):
    """git refused; the message is git's."""


@dataclass(frozen=True)
class Commit:
    """A message and the files it writes."""

    message: str
    files: Mapping[str, str] = field(default_factory=dict)


def git(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run git in `folder` apart from the user's settings; raises RepositoryError."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
    }  # fmt: skip
    command = ["git", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, input=stdin, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RepositoryError(f"git {' '.join(arguments)} in {folder}: {done.stderr.strip()}")
    return done.stdout


def without_tests(source: str, names: tuple[str, ...]) -> str:
    """A test module without the named functions and the blank lines before them."""
    lines = source.splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            start = node.lineno - 1
            while start and not lines[start - 1].strip():
                start -= 1
            del lines[start : node.end_lineno]
    return "".join(lines)


def history(entry: CatalogueEntry) -> Iterator[Commit]:
    """The commits up to the task's base commit: package, modules with tests, the defect, a last word."""
    package = entry.package
    readme = entry.read("README.md")
    start = {
        "README.md": readme.splitlines(keepends=True)[0],
        "pyproject.toml": f'[project]\nname = "{package}"\nversion = "1.0"\nrequires-python = ">=3.9"\n',
        ".gitignore": "__pycache__/\n*.pyc\n",
        f"{package}/__init__.py": entry.read(f"{package}/__init__.py"),
    }
    yield Commit(f"Start {package}", start)
    for path in sorted((PACKAGES / package / package).glob("*.py")):
        if path.name != "__init__.py":
            yield _module_commit(entry, path.stem)
    yield Commit(f"Tidy {entry.function}", {entry.path: entry.broken()})
    yield Commit("Describe the package", {"README.md": readme})


def _module_commit(entry: CatalogueEntry, module: str) -> Commit:
    source, tests = f"{entry.package}/{module}.py", f"tests/test_{module}.py"
    known = entry.read(tests)
    if tests == entry.test_path:
        known = without_tests(known, entry.fails)
    return Commit(f"Add {module}", {source: entry.read(source), tests: known})


def _stream(commits: Iterable[Commit]) -> str:
    """The commits as input of `git fast-import` (git-fast-import(1)); sizes are in bytes."""
    lines: list[str] = []
    for day, commit in enumerate(commits):
        name, email = AUTHORS[day % len(AUTHORS)]
        when = int((FIRST_COMMIT + timedelta(days=3 * day, minutes=17 * day)).timestamp())
        lines += ["commit refs/heads/main", f"author {name} <{email}> {when} +0000"]
        lines += [f"committer {name} <{email}> {when} +0000", _data(commit.message + "\n")]
        for path, text in commit.files.items():
            lines += [f"M 100644 inline {path}", _data(text)]
    return "\n".join([*lines, ""])


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def write_repository(entry: CatalogueEntry, folder: Path) -> str:
    """Write the repository into `folder` (made when missing, else empty) and return the base commit's hash."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RepositoryError(f"{folder} is not empty; give an empty or a new folder")
    git(folder, "init", "--quiet", "--initial-branch=main", "--template=", "--object-format=sha1")
    git(folder, "fast-import", "--quiet", stdin=_stream(history(entry)))
    git(folder, "reset", "--quiet", "--hard")
    return git(folder, "rev-parse", "HEAD").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a bundled task's git repository at its base commit.")
    parser.add_argument("instance_id")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    print(write_repository(find(arguments.instance_id), arguments.folder))


if __name__ == "__main__":
    main()
