"""The bundled tasks as data: which defect is put into which function of which package.

Guarantees: the defective fragment stands on exactly one line of the broken module, so one `sed` on that line can repair
it; instance ids depend on the catalogue's order alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
PACKAGES = FOLDER / "packages"
OWNER = "swe-rl"
SPLITS = ("train", "held_out")


class CatalogueError(ValueError):
    """An entry of catalogue.yaml that does not fit its package."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One task: `bad` stands where `good` belongs in `function` of `module` (package/name without .py)."""

    instance_id: str
    split: str
    module: str
    function: str
    kind: str
    good: str
    bad: str
    statement: str
    fails: tuple[str, ...]  # tests that fail with the defect: the FAIL_TO_PASS tests

    @property
    def package(self) -> str:
        return self.module.partition("/")[0]

    @property
    def path(self) -> str:
        """The defective file, relative to the repository."""
        return f"{self.module}.py"

    @property
    def test_path(self) -> str:
        return f"tests/test_{self.module.partition('/')[2]}.py"

    @property
    def repository(self) -> str:
        return f"{OWNER}/{self.package}"

    def read(self, path: str) -> str:
        """A file of the package as it is without the defect."""
        return (PACKAGES / self.package / path).read_text(encoding="utf-8")

    def broken(self) -> str:
        """The module with the defect."""
        source = self.read(self.path)
        function = function_source(source, self.function)
        if function.count(self.good) != 1:
            raise CatalogueError(f"{self.instance_id}: {self.good!r} must occur once in {self.function} of {self.path}")
        broken = source.replace(function, function.replace(self.good, self.bad))
        if sum(self.bad in line for line in broken.splitlines()) != 1:
            raise CatalogueError(f"{self.instance_id}: {self.bad!r} must stand on one line of the broken {self.path}")
        return broken


def function_source(source: str, name: str) -> str:
    """A top-level function's text, from its `def` to the blank line after it."""
    start = source.find(f"def {name}(")
    if start < 0:
        raise CatalogueError(f"no function {name} in the module")
    end = source.find("\n\n", start)
    return source[start:] if end < 0 else source[start : end + 1]


def load_catalogue(path: Path = FOLDER / "catalogue.yaml") -> list[CatalogueEntry]:
    """Every bundled task in the order of the file."""
    documents: Iterable[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    numbers: Counter[str] = Counter()
    entries = []
    for document in documents:
        package = str(document["module"]).partition("/")[0]
        numbers[package] += 1
        document["fails"] = tuple(document["fails"])
        entries.append(CatalogueEntry(instance_id=f"{OWNER}__{package}-{numbers[package]}", **document))
    return entries


def find(instance_id: str) -> CatalogueEntry:
    """The task of that id; raises CatalogueError with the known ids' pattern."""
    for entry in load_catalogue():
        if entry.instance_id == instance_id:
            return entry
    raise CatalogueError(f"no bundled task {instance_id!r}; ids look like {load_catalogue()[0].instance_id}")
