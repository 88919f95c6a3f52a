"""What tests rely on besides the code under test, and what of it was replaced in memory.

Runs on Python 3.5 or newer, and needs nothing else.

Guarantees: it watches what the tests' own modules define, the builtins, how files and JSON are read, and the code of
unittest and pytest. What a test replaces and restores itself is not reported, nor what the runner replaces by its own.
A function of JSON, operators, patterns and the like is reported only where code of the tests has that module.
"""

import ast
import json  # noqa: F401  (watched)
import math  # noqa: F401  (watched)
import os
import pathlib  # noqa: F401  (watched)
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from swerl_record import RunFacts, code_file, first_few, inner, read_source

FOR_ALL = ("builtins", "io", "os", "posixpath", "pathlib")  # the runner itself works with them, and reads files by them
LIBRARY = FOR_ALL + ("json", "operator", "re", "math", "copy", "contextlib", "functools", "itertools")
RUNNERS = ("unittest", "pytest", "_pytest", "pluggy")
MARKS = ("parametrize", "skip", "skipif", "xfail", "usefixtures")
WRAPPERS = (property, classmethod, staticmethod)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is(value: Any, kinds: Any) -> bool:
    """`isinstance` by the type alone: a lazy object would begin to work where it is asked for its class."""
    return issubclass(type(value), kinds)


def _functions(owner: Any) -> "Iterator[tuple[str, Any]]":
    for name, value in list(vars(owner).items()):
        if _is(value, WRAPPERS + (types.FunctionType, types.BuiltinFunctionType, type)):
            yield name, value


def _entry(what: str, namespace: Any, name: str, value: Any) -> "tuple[str, Any, str, Any, Any, Any]":
    function = inner(value) if _is(value, WRAPPERS) else value
    known = function if _is(function, types.FunctionType) else None
    return what, namespace, name, value, known, getattr(known, "__code__", None)


def library(names: "Sequence[str]") -> "list[tuple[str, Any, str, Any, Any, Any]]":
    """What the interpreter and the runner give to every test, as it is now."""
    found = []
    for module in [sys.modules[name] for name in names if sys.modules.get(name)]:
        owners = [module] + [each for each in list(vars(module).values()) if _is(each, type)]
        for owner in [each for each in owners if each is module or each.__module__ == module.__name__]:
            what = module.__name__ if owner is module else module.__name__ + "." + owner.__name__
            found += [_entry(what + "." + name, vars(owner), name, value) for name, value in _functions(owner)]
    if "pytest" in names:
        pytest = sys.modules["pytest"]
        found.append(_entry("pytest.mark", vars(pytest), "mark", vars(pytest).get("mark")))
        marks = vars(vars(pytest)["mark"]) if "mark" in vars(pytest) else {}
        found += [("pytest.mark." + name, marks, name, None, None, None) for name in MARKS]  # none is an attribute
    return found


class _Bindings:
    """What a module binds at its top, once each.

    Functions without decorators, classes and the methods they define, literals, and names of other modules.
    """

    def __init__(self, source: bytes) -> None:
        tree = ast.parse(source)
        counts = self._counts(tree)
        once = {name for name in counts if counts[name] == 1}
        self.functions = set()
        self.methods = {}  # type: dict[str, dict[str, bool]]
        self.literals = {}  # type: dict[str, Any]
        self.imported = []  # type: list[tuple[str, str, str]]
        for each in tree.body:
            if isinstance(each, ast.FunctionDef) and not each.decorator_list and each.name in once:
                self.functions.add(each.name)
            elif isinstance(each, ast.ClassDef) and each.name in once:
                self.methods[each.name] = self._methods(each)
            elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id in once:
                try:
                    self.literals[each.targets[0].id] = ast.literal_eval(each.value)
                except ValueError:
                    continue
            elif isinstance(each, ast.ImportFrom) and not each.level:
                names = [(str(each.module), alias.name, alias.asname or alias.name) for alias in each.names]
                self.imported += [name for name in names if name[2] in once]

    @staticmethod
    def _counts(tree: Any) -> "dict[str, int]":
        counts = {}  # type: dict[str, int]
        for each in ast.walk(tree):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                names = [each.id]
            elif isinstance(each, (ast.FunctionDef, ast.ClassDef)):
                names = [each.name]
            elif isinstance(each, (ast.Import, ast.ImportFrom)):
                names = [alias.asname or alias.name for alias in each.names]
            else:
                names = each.names * 2 if isinstance(each, ast.Global) else []
            for name in names:
                counts[name] = counts.get(name, 0) + 1
        return counts

    @staticmethod
    def _methods(node: Any) -> "dict[str, bool]":
        """Methods of a class, and whether each must be the function that the source defines."""
        defined = [each for each in node.body if isinstance(each, DEFINITIONS)]
        names = [each.name for each in defined]
        names += [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        return {
            each.name: not (node.decorator_list or each.decorator_list) and names.count(each.name) == 1
            for each in defined
        }

    def differs(self, name: str, value: Any, path: str) -> bool:
        """Whether a value is not what the source of the file gives the name."""
        if name in self.functions:
            return not _is_of(value, path)
        if name in self.methods:
            return not _is(value, type) or any(
                plain and method in _own(value) and not _is_of(inner(_own(value)[method]), path)
                for method, plain in self.methods[name].items()
            )
        if name in self.literals:
            return type(value) is not type(self.literals[name]) or value != self.literals[name]
        return any(
            local == name and vars(sys.modules.get(source, types)).get(there, value) is not value
            for source, there, local in self.imported
        )

    def all(self) -> "list[str]":
        """The names."""
        defined = sorted(self.functions) + sorted(self.methods) + sorted(self.literals)
        return defined + [local for _, _, local in self.imported]


def _modules(facts: RunFacts) -> "Iterator[tuple[Any, str, str]]":
    """Loaded modules in the folders of the task's tests that belong to tests and not to the patch.

    With each its file, and what that is called in the repository.

    By their names: where tests lie beside the code under test, that code may change its own state.
    """
    folders = {os.path.dirname(path) for path in facts.tests}
    real = {os.path.realpath(os.path.join(facts.tree, folder)) for folder in folders}
    known = {}  # type: dict[str, str]
    for module in list(sys.modules.values()):
        try:
            file = str(getattr(module, "__file__", None) or "")
        except Exception:  # it is a module by name only
            continue
        folder = os.path.dirname(file)
        if folder not in known:
            known[folder] = os.path.realpath(folder)
        if file.endswith(".py") and known[folder] in real:
            path = os.path.realpath(file)
            what = facts.short(path)
            if "test" in what.lower() and path not in facts.patched:
                yield module, path, what


def _has_library(module: Any, path: str, name: str) -> bool:
    """Whether a module holds or imports a module of the standard library or a part of it; true if it is unreadable."""
    library = sys.modules[name]
    ids = {id(library)}.union(id(each) for each in list(vars(library).values()) if callable(each))
    if any(id(value) in ids for value in list(vars(module).values())):
        return True
    try:
        tree = ast.parse(read_source(path))
    except Exception:
        return True
    imported = [alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names]
    imported += [str(each.module) for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and not each.level]
    return name in [each.partition(".")[0] for each in imported]


def used_by_tests(name: str, facts: RunFacts) -> bool:
    """Whether code of the repository's tests, without files of the patch, has a module of the standard library."""
    listed = {os.path.realpath(os.path.join(facts.tree, path)) for path in facts.tests}
    for module in list(sys.modules.values()):
        try:
            path = os.path.realpath(str(getattr(module, "__file__", None) or ""))
            what = facts.short(path)
            belongs = path in listed or (what != path and "test" in what.lower())
            if path.endswith(".py") and belongs and path not in facts.patched and _has_library(module, path, name):
                return True
        except Exception:  # it is a module by name only
            continue
    return False


def _is_of(value: Any, path: str) -> bool:
    """Whether a function was compiled from a file."""
    file = code_file(value) if _is(value, types.FunctionType) else ""
    same_name = not os.path.isabs(file) and os.path.basename(file) == os.path.basename(path)
    return same_name or os.path.realpath(file) == path


def _own(klass: Any) -> Any:
    """What a class itself holds, whatever its metaclass answers."""
    return type.__dict__["__dict__"].__get__(klass)


def _class_entries(
    what: str, klass: Any, methods: "dict[str, bool]"
) -> "Iterator[tuple[str, Any, str, Any, Any, Any]]":
    """The methods of a class: those it defines as they are, those it inherits as not its own."""
    own = _own(klass)
    for name in methods:
        if name in own:
            yield _entry(what, own, name, own[name])
    inherited = {name for base in type.__dict__["__mro__"].__get__(klass)[1:] for name, _ in _functions(base)}
    for name in inherited - set(own):
        yield _entry(what, own, name, None)


def helpers(facts: RunFacts) -> "tuple[list[tuple[str, Any, str, Any, Any, Any]], list[str]]":
    """What the tests' own modules bind, and the files of those in which something was replaced already."""
    found, gone = [], []
    for module, path, what in _modules(facts):
        try:
            names = _Bindings(read_source(path))
            for name, value in [(name, vars(module)[name]) for name in names.all() if name in vars(module)]:
                found.append(_entry(what, vars(module), name, value))
                if name in names.methods and _is(value, type):
                    found += _class_entries(what, value, names.methods[name])
                if names.differs(name, value, path):
                    gone.append(what)
        except Exception:  # an odd module is no reason to end the tests' run
            continue
    return found, gone


class Watch:
    """What was found replaced; `look` is to be called after each test. The runner itself is looked at in the end."""

    def __init__(self) -> None:
        self._library = library(LIBRARY)
        self._runner = library([name for name in sys.modules if name.partition(".")[0] in RUNNERS])
        self._helpers = []  # type: list[tuple[str, Any, str, Any, Any, Any]]
        self._changed = set()  # type: set[str]
        self._replaced = set()  # type: set[str]

    def started(self) -> None:
        """Accept what the runner replaced by functions of its own; before any code of the repository is loaded."""
        own = {id(entry[3]) for entry in self._runner if entry[3] is not None}
        for number, (what, namespace, name, value, _, _) in enumerate(self._runner):
            now = namespace.get(name)
            if now is not value and id(now) in own:
                self._runner[number] = _entry(what, namespace, name, now)

    def begin(self, facts: RunFacts) -> None:
        """Watch the tests' own modules, too, once these are loaded."""
        self.look()
        self._helpers, gone = helpers(facts)
        self._changed.update(gone)

    def look(self) -> None:
        """Remember what is not as it was."""
        self._compare(self._library, self._replaced)
        self._compare(self._helpers, self._changed)

    @staticmethod
    def _compare(watched: "list[tuple[str, Any, str, Any, Any, Any]]", different: "set[str]") -> None:
        for what, namespace, name, value, function, code in watched:
            if namespace.get(name) is not value or (function is not None and function.__code__ is not code):
                different.add(what)

    def found(self) -> "list[str]":
        """The first few of what was replaced in the runner and in the tests' own modules."""
        self.look()
        self._compare(self._runner, self._changed)
        return first_few(sorted(self._changed))

    def replaced(self, facts: RunFacts) -> "list[str]":
        """The first few functions of the standard library that were replaced and that the tests rely on."""
        self.look()
        modules = {what.partition(".")[0] for what in self._replaced}
        used = {name for name in modules if name in FOR_ALL or used_by_tests(name, facts)}
        return first_few([what for what in sorted(self._replaced) if what.partition(".")[0] in used])
