"""Where the tests that a task names are, and what they would be called under other names.

Guarantees: an id that could mean two tests means none; the forms are those of pytest (`path::Class::test[case]`), of
unittest and Django (`test (module.Class)`) and bare names (`Class.test[case]`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swerl_agent.tasks import GroundTruth
from swerl_agent.tasks.diffs import changed_paths

from .alterations import Names, TestSource

_PYTEST = re.compile(r"(?P<head>[^\[\]]+?\.py)::(?P<names>[\w.]+(?:::\w+)*)(?P<case>\[.*)?", re.DOTALL)
_UNITTEST = re.compile(r"(?P<function>\w+) \((?P<head>[\w.]+)\)")
_BARE = re.compile(r"(?P<names>\w+(?:\.\w+)*)(?P<case>\[.*)?", re.DOTALL)
_TEXT_FILE = re.compile(r"(?P<head>\S+\.(?:rst|txt|md))::\S+")
_PLAIN_PATH = re.compile(r"[\w./+@=,-]+")
MAX_PATTERNS = 60  # of files in which tests may be


@dataclass(frozen=True)
class Target:
    """A test that a task names, in its file."""

    test_id: str
    path: str
    names: Names  # of a doctest: no class, and its object's dotted name or '' for a whole text file
    doctest: bool = False

    def renamed(self, new: Names) -> str:
        """Its id under other names."""
        if form := _PYTEST.fullmatch(self.test_id):
            names = "::".join([*new.owner.split("."), new.function] if new.owner else [new.function])
            return f"{form['head']}::{names}{form['case'] or ''}"
        if form := _UNITTEST.fullmatch(self.test_id):
            module, owner, long = _unittest_parts(form["head"], form["function"], self.names.owner)
            return f"{new.function} ({module}.{new.owner or owner}{f'.{new.function}' if long else ''})"
        bare = _BARE.fullmatch(self.test_id)
        names = ".".join([*([new.owner] if new.owner else []), new.function])
        return f"{names}{(bare and bare['case']) or ''}"


def _unittest_parts(dotted: str, function: str, owner: str) -> tuple[str, str, bool]:
    long = dotted.endswith(f".{function}")
    whole = dotted.removesuffix(f".{function}") if long else dotted
    return whole.removesuffix(f".{owner}"), owner, long


def text_file(test: str) -> str:
    """The text file of a doctest's id, '' for any other id."""
    form = _TEXT_FILE.fullmatch(test)
    return form["head"] if form else ""


def named_files(tests: Sequence[str]) -> list[str]:
    """Files that ids of tests name, from the folder where the tests start; not those of doctests."""
    forms = [form for test in tests if (form := _PYTEST.fullmatch(test))]
    return list(dict.fromkeys(form["head"] for form in forms if "::" in form["names"] or "." not in form["names"]))


def file_patterns(ground_truth: GroundTruth, hidden: Sequence[str] = ()) -> list[str]:
    """Paths, git's glob patterns and absolute paths (`hidden`) where the files of a task's tests may be."""
    found = [*changed_paths(ground_truth.test_patch), *hidden]
    for test in ground_truth.fail_to_pass:
        if form := _PYTEST.fullmatch(test) or _TEXT_FILE.fullmatch(test):
            found += [form["head"], f"**/{form['head']}"]
        elif form := _UNITTEST.fullmatch(test):
            parts = form["head"].split(".")
            found += [f"**/{'/'.join(parts[:length])}.py" for length in range(len(parts) - 2, len(parts)) if length > 0]
    return [path for path in dict.fromkeys(found) if _PLAIN_PATH.fullmatch(path.replace("**/", ""))][:MAX_PATTERNS]


def located(tests: Sequence[str], sources: Mapping[str, TestSource], texts: Mapping[str, str]) -> list[Target]:
    """Those of the `tests` that are found in one of the files: `sources` of Python, `texts` of doctests."""
    targets = (_located(test, sources, texts) for test in dict.fromkeys(tests))
    return [target for target in targets if target]


def _located(test: str, sources: Mapping[str, TestSource], texts: Mapping[str, str]) -> Target | None:
    if form := _TEXT_FILE.fullmatch(test):
        paths = [path for path in texts if _ends(path, form["head"])]
        return Target(test, paths[0], Names("", ""), doctest=True) if len(paths) == 1 else None
    if form := _PYTEST.fullmatch(test):
        parts = form["names"].split("::")
        if len(parts) == 1 and "." in parts[0]:
            return _doctest(test, form["head"], parts[0], sources)
        names = Names(".".join(parts[:-1]), parts[-1])
        found = [(path, names) for path in sources if _ends(path, form["head"])]
    elif form := _UNITTEST.fullmatch(test):
        found = [(path, names) for path in sources for names in _named(path, form["head"], form["function"])]
    elif form := _BARE.fullmatch(test):
        *owners, function = form["names"].split(".")
        found = [(path, Names(".".join(owners), function)) for path in sources]
    else:
        return None
    there = [(path, names) for path, names in found if names in sources[path].functions]
    return Target(test, *there[0]) if len(there) == 1 else None


def _doctest(test: str, head: str, dotted: str, sources: Mapping[str, TestSource]) -> Target | None:
    for path in (path for path in sources if _ends(path, head)):
        parts = dotted.split(".")
        for start in range(len(parts)):
            names = Names(".".join(parts[start:-1]), parts[-1])
            if names in sources[path].functions:
                return Target(test, path, names, doctest=True)
    return None


def _named(path: str, dotted: str, function: str) -> list[Names]:
    """What `module.Class` or `module.Class.test` calls a test of a file."""
    module = path.removesuffix(".py").strip("/").replace("/", ".")
    whole = dotted.removesuffix(f".{function}") if dotted.endswith(f".{function}") else dotted
    parts = whole.split(".")
    ways = [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]
    return [Names(owner, function) for head, owner in ways if module == head or module.endswith(f".{head}")]


def _ends(path: str, head: str) -> bool:
    return path == head or path.endswith(f"/{head}")
