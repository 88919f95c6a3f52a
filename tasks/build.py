"""Render the catalogue into `train/` and `held_out/`, two sources in the SWE-bench task-repository format.

Guarantees: rendering is deterministic; the rendered folders hold nothing that is not made here (old tasks are removed).

`python -m tasks.build` renders in place, `--check` only compares and fails when a rendered file is out of date.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from tasks.catalogue import FOLDER, OWNER, SPLITS, CatalogueEntry, load_catalogue
from tasks.repository import git, write_repository

MARKER = "EOF_114329324912"
DATASETS = {"train": f"{OWNER}/bundled-train", "held_out": f"{OWNER}/bundled-held-out"}
CREATED = "2024-04-01T12:00:00Z"

DOCKERFILE = """\
# Build with the repository as a second context:
#   python -m tasks.repository {instance_id} REPOSITORY
#   docker build --build-context repository=REPOSITORY .
ARG BASE=swe-rl/sandbox-base
FROM ${{BASE}}
COPY --from=repository / /testbed
WORKDIR /testbed
"""

EVAL_SCRIPT = """\
#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout {base} {tests}
git apply -v - <<'{marker}'
{patch}{marker}
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider {tests}
: '>>>>> End Test Output'
git checkout {base} {tests}
"""


def test_ids(entry: CatalogueEntry) -> tuple[list[str], list[str]]:
    """(FAIL_TO_PASS, PASS_TO_PASS) of the task, in the order of the test module."""
    body = ast.parse(entry.read(entry.test_path)).body
    names = [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    split = ([name for name in names if name in entry.fails], [name for name in names if name not in entry.fails])
    failing, passing = ([f"{entry.test_path}::{name}" for name in part] for part in split)
    return failing, passing


def _diff(folder: Path, path: str, text: str) -> str:
    """`git diff` after `path` got `text`; the work tree is put back."""
    (folder / path).write_text(text, encoding="utf-8", newline="\n")
    patch = git(folder, "diff", "--no-color", "--", path)
    git(folder, "checkout", "--quiet", "--", path)
    return patch


def render(entry: CatalogueEntry) -> dict[str, str]:
    """The files of one task folder."""
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary)
        base = write_repository(entry, repository)
        gold = _diff(repository, entry.path, entry.read(entry.path))
        tests = _diff(repository, entry.test_path, entry.read(entry.test_path))
    failing, passing = test_ids(entry)
    metadata = {
        "instance_id": entry.instance_id, "repo": entry.repository, "version": "1.0", "base_commit": base,
        "split": entry.split, "datasets": [DATASETS[entry.split]],
        "image": f"{OWNER}/task-{entry.instance_id}:{base[:12]}",
        "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail", "created_at": CREATED,
    }  # fmt: skip
    return {
        "task.yaml": yaml.safe_dump(metadata, sort_keys=False),
        "tests.json": json.dumps({"FAIL_TO_PASS": failing, "PASS_TO_PASS": passing}, indent=2) + "\n",
        "problem_statement.md": entry.statement + "\n",
        "gold.patch": gold,
        "test.patch": tests,
        "eval.sh": EVAL_SCRIPT.format(base=base, tests=entry.test_path, patch=tests, marker=MARKER),
        "Dockerfile": DOCKERFILE.format(instance_id=entry.instance_id),
    }


def render_all() -> dict[Path, str]:
    """Every rendered file by its path relative to this folder."""
    files: dict[Path, str] = {}
    for split in SPLITS:
        header = {"datasets": [DATASETS[split]], "splits": [split]}
        files[Path(split) / "sweb.yaml"] = yaml.safe_dump(header, sort_keys=False)
    for entry in load_catalogue():
        folder = Path(entry.split) / "tasks" / entry.instance_id
        files |= {folder / name: text for name, text in render(entry).items()}
    return files


def differences(files: dict[Path, str]) -> list[str]:
    """Paths under the rendered folders that are missing, different or superfluous."""
    present = {path.relative_to(FOLDER) for split in SPLITS for path in (FOLDER / split).rglob("*") if path.is_file()}
    stale = [path for path, text in files.items() if path not in present or (FOLDER / path).read_text("utf-8") != text]
    return sorted(map(str, {*stale, *(present - files.keys())}))


def main() -> int:
    parser = argparse.ArgumentParser(description="Render the bundled tasks.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when something is out of date")
    check = parser.parse_args().check
    files = render_all()
    stale = differences(files)
    if check:
        print("\n".join(f"out of date: tasks/{path}" for path in stale) or "tasks: up to date")
        return 1 if stale else 0
    for split in SPLITS:
        shutil.rmtree(FOLDER / split, ignore_errors=True)
    for path, text in files.items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8", newline="\n")
    print(f"tasks: {len(files)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
