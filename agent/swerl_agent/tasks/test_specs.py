"""Eval scripts of SWE-bench's and SWE-Gym's repositories, rendered from a table of facts (`test_specs.yaml`).

Guarantees: a script has the harness's shape: environment, install step, test files at the base commit, test patch, test
command with its targets, test files at the base commit again. It does not stop at a step that fails. A repository or
version that the table lacks is a ValueError that names it. Nothing is imported from a harness or downloaded.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

from .diffs import changed_files

Targets = Literal["files", "modules", "cases"]

FOLDER = "/testbed"
CONDA = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
# Grading Pods have no network: pip fails at once instead of trying again for a minute.
OFFLINE = "export PIP_RETRIES=0 PIP_DISABLE_PIP_VERSION_CHECK=1"
DELIMITER = "EOF_114329324912"
START_MARKER, END_MARKER = ": '>>>>> Start Test Output'", ": '>>>>> End Test Output'"
DATA_SUFFIXES = (
    ".csv",
    ".jpeg",
    ".jpg",
    ".json",
    ".md",
    ".pkl",
    ".png",
    ".toml",
    ".txt",
    ".xml",
    ".yaml",
    ".yml",
)
_FIELDS = {"from": "lower", "below": "upper"}  # of the table, where Python's names differ
_CASE = re.compile(r"\[case ([^\]]+)\]")


@dataclass(frozen=True)
class TestSpec:
    """How the tests of one repository run, for the versions `lower <= v < upper`."""

    test: str
    install: str = ""
    setup: tuple[str, ...] = ()
    targets: Targets = "files"
    skip: tuple[str, ...] = ()
    lower: str | None = None
    upper: str | None = None

    def holds_for(self, version: str) -> bool:
        """Whether this entry describes `version`."""
        key = _version_key(version)
        above = self.lower is None or _version_key(self.lower) <= key
        return above and (self.upper is None or key < _version_key(self.upper))


def render_eval_script(columns: Mapping[str, Any]) -> str:
    """The eval script of a row; reads repo, version, base_commit and test_patch.

    Raises ValueError naming the repository or version that the table lacks, and for a test patch without tests.
    """
    spec = find_test_spec(str(columns.get("repo") or ""), str(columns.get("version") or ""))
    targets = targets_of(spec.targets, str(columns.get("test_patch") or ""), spec.skip)
    if not targets:
        raise ValueError(f"its test patch changes nothing that `{spec.test}` runs")
    setup = (*CONDA, f"cd {FOLDER}", *spec.setup, OFFLINE)
    command = " ".join([spec.test, *targets])
    return eval_script(columns, folder=FOLDER, setup=setup, install=spec.install, command=command)


def eval_script(
    columns: Mapping[str, Any], *, folder: str, setup: Sequence[str], install: str = "", command: str
) -> str:
    """A script of the harness's shape; `setup` ends in `folder`, `command` runs the tests (one or more lines).

    Reads base_commit and test_patch of the row.
    """
    patch = str(columns.get("test_patch") or "")
    at_base = [shlex.quote(file.before) for file in changed_files(patch) if not file.added]
    reset = [" ".join(["git checkout", str(columns.get("base_commit") or ""), *at_base])] if at_base else []
    end = DELIMITER
    while end in patch:
        end += "_"
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        *setup,
        f"git config --global --add safe.directory {folder}",
        *([install] if install else []),
        *reset,
        *([f"git apply -v - <<'{end}'\n{patch}\n{end}"] if patch else []),
        START_MARKER,
        command,
        END_MARKER,
        *reset,
    ]
    return "\n".join(lines) + "\n"


def find_test_spec(repo: str, version: str) -> TestSpec:
    """The entry for a repository (in any case) and version; raises ValueError."""
    entries = specs_by_repository().get(repo.lower())
    if entries is None:
        raise ValueError(f"no test spec of repository {repo!r}")
    if any(entry.lower or entry.upper for entry in entries) and not re.search(r"\d", version):
        raise ValueError(f"the test spec of {repo} depends on the version, and the row's version is {version!r}")
    found = next((entry for entry in entries if entry.holds_for(version)), None)
    if found is None:
        raise ValueError(f"no test spec of {repo} {version}")
    return found


@cache
def specs_by_repository() -> Mapping[str, Sequence[TestSpec]]:
    """The table, by repository in lower case."""
    text = resources.files(__package__).joinpath("test_specs.yaml").read_text()
    return {repo: tuple(_entry(entry) for entry in entries) for repo, entries in yaml.safe_load(text).items()}


def _entry(entry: Mapping[str, Any]) -> TestSpec:
    fields = {_FIELDS.get(key, key): value for key, value in entry.items()}
    lists = {name: tuple(fields.get(name, ())) for name in ("setup", "skip")}
    return TestSpec(**fields | lists)


def targets_of(kind: Targets, patch: str, skip: Sequence[str] = ()) -> list[str]:
    """What follows the test command, quoted for a shell: files, dotted modules, or one expression of case names.

    `skip`: suffixes of files that are no targets, besides those of data.
    """
    if kind == "cases":
        names = list(dict.fromkeys(_CASE.findall(patch)))
        return [shlex.quote(" or ".join(names))] if names else []
    data = (*DATA_SUFFIXES, *skip)
    files = [file.path for file in changed_files(patch) if not file.deleted and not file.path.endswith(data)]
    return [shlex.quote(_module(file) if kind == "modules" else file) for file in files]


def _module(file: str) -> str:
    """Name under which Django's runner knows a test file."""
    return file.removesuffix(".py").removeprefix("tests/").replace("/", ".")


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
