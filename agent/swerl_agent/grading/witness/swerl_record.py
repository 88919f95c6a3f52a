"""What the witnesses of test runs share: the signed record, and what a test process must not do.

Runs on Python 3.5 or newer, and needs nothing else.

Guarantees: the witness takes its own traces out of the environment, so that nothing that the tests start is changed;
every line of the record is numbered and signed with a key that could be read once; a forked child writes none.
"""

import atexit
import functools
import hashlib
import hmac
import json
import marshal
import os
import select
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

KEY_WAIT = 10.0  # seconds until a session that gets no key goes on unwitnessed
MEMORY_SEARCHES = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
HERE = os.path.dirname(os.path.abspath(__file__))
MAX_NAMED = 20
MAX_WRITTEN = 500
MAX_SOURCE = 1000000  # bytes of a file whose functions are watched
LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
TAG = str(sys.implementation.cache_tag)


class Record:
    """The signed lines of one session: `<session> <number> <signature> <JSON>`."""

    def __init__(self, session: str, key: str, fd: int) -> None:
        self._session, self._fd, self._number, self._process = session, fd, 0, os.getpid()
        self._signer = hmac.new(key.encode(), digestmod=hashlib.sha256)

    def write(self, *content: Any) -> None:
        if os.getpid() != self._process:  # a forked child is not this session
            return
        text = json.dumps(content)
        signer = self._signer.copy()
        signer.update((str(self._number) + " " + text).encode())
        line = " ".join([self._session, str(self._number), signer.hexdigest(), text]).encode() + b"\n"
        self._number += 1
        while line:
            line = line[os.write(self._fd, line) :]


class RunFacts:
    """What the wrapper knows of the run."""

    def __init__(self, folder: str) -> None:
        with open(folder + "/facts", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
        self.folder, self.began, self.tree = folder, float(lines[0]), lines[2]
        self.installing = float(lines[1])  # since then the eval script runs
        with open(folder + "/tests", encoding="utf-8", errors="surrogateescape") as file:
            self.tests = [path for path in file.read().split("\0") if path and not path.endswith(".pyc")]
        self.patched = {os.path.realpath(os.path.join(self.tree, path)) for path in lines[3:] if path}

    def is_patched(self, path: str) -> bool:
        """Whether `path` is a file of the patch."""
        return bool(path) and os.path.realpath(path) in self.patched

    def short(self, path: str) -> str:
        """`path` as the patch names it, or as it is outside the repository."""
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.tree))
        return path if inside.startswith("..") else inside


def requested_folder() -> str:
    """The folder of the record where this process is to be witnessed, else ''; the environment is put right."""
    folder = os.environ.pop("SWERL_WITNESS", "")
    if not folder:
        return ""
    for name in ("SWERL_WITNESS_FOLDER", "SWERL_WITNESS_CODE", "TOX_TESTENV_PASSENV", "TOX_OVERRIDE"):
        os.environ.pop(name, None)
    for name in ("PYTEST_ADDOPTS", "PYTHONPATH"):
        value = os.environ.pop("SWERL_WITNESS_" + name, "")
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value
    sys.path[:] = [path for path in sys.path if path != HERE]
    return folder


def _own_pipe(folder: str) -> str:
    """The pipe of this session's key, '' when there is none left: the first process that renames it has it."""
    for name in sorted(name for name in os.listdir(folder) if name.startswith("key.")):
        try:
            os.rename(folder + "/" + name, folder + "/taken" + name)
        except OSError:
            continue
        return folder + "/taken" + name
    return ""


def opened_record(folder: str) -> "Record | None":
    """The record of this session, or None when all keys are handed out."""
    pipe = _own_pipe(folder)
    if not pipe:
        return None
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        line = os.read(fd, 200).decode().split() if select.select([fd], [], [], KEY_WAIT)[0] else []
    finally:
        os.close(fd)
    if len(line) != 2:
        return None
    record = Record(line[0], line[1], os.open(folder + "/record", os.O_WRONLY))
    atexit.register(record.write, "exit")
    return record


def inner(value: Any) -> Any:
    """The function in a property, a static or a class method."""
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def read_source(path: str, os_open: "Callable[..., int]" = os.open, os_read: "Callable[..., bytes]" = os.read) -> bytes:
    """The source of a module, whatever was put in the place of `open` since."""
    number = os_open(path, os.O_RDONLY)
    try:
        return os_read(number, MAX_SOURCE)
    finally:
        os.close(number)


def code_file(value: Any) -> str:
    """The file of a callable's code, '' for what has none."""
    while isinstance(value, functools.partial):
        value = value.func
    value = inner(value)
    code = getattr(value, "__code__", None) or getattr(getattr(type(value), "__call__", None), "__code__", None)
    return str(code.co_filename) if code else ""


def runner_functions(packages: "Sequence[str]") -> "list[tuple[Any, str, Any, types.CodeType]]":
    """(owner, name, callable, code) of every function of the loaded modules of `packages`."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in packages or module is None:
            continue
        classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
        for owner in [module] + classes:
            for attribute, value in list(vars(owner).items()):
                function = inner(value)
                if isinstance(function, types.FunctionType):
                    found.append((owner, attribute, value, function.__code__))
    return found


def replaced(before: "list[tuple[Any, str, Any, types.CodeType]]", facts: RunFacts) -> "Iterator[str]":
    """What a file of the patch, or one that does not exist, put in the place of functions of the runner."""
    for owner, attribute, value, code in before:
        now = vars(owner).get(attribute, value)
        function = inner(value)
        if now is value and function.__code__ is code:
            continue
        path = code_file(now) if now is not value else function.__code__.co_filename
        if facts.is_patched(path) or not os.path.exists(path or "<none>"):
            name = getattr(owner, "__qualname__", owner.__name__) + "." + attribute
            yield (facts.short(path) if path else "something") + " replaced " + name


def loaded_before(facts: RunFacts) -> "list[str]":
    """Files of the patch that are modules already."""
    paths = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
    return sorted({path for path in paths if facts.is_patched(path)})


def test_files(facts: RunFacts, stat: "Callable[[str], Any]" = os.stat) -> "Callable[[], list[str]]":
    """A function that gives the files of the tests that were written to since now, even if they were put back."""

    def state(path: str) -> "tuple[int, ...]":
        try:
            found = stat(os.path.join(facts.tree, path))
        except OSError:
            return ()
        return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino

    before = {path: state(path) for path in facts.tests}
    return lambda: [path for path in before if state(path) != before[path]]


def touched(files: "Callable[[], list[str]]") -> "list[str]":
    """The first few of those files."""
    return first_few(files())


def first_few(names: "Sequence[str]") -> "list[str]":
    """Names as the record can hold them."""
    return [name.encode("utf-8", "replace").decode() for name in names[:MAX_NAMED]]


def rewritten_runner_files(packages: "Sequence[str]", facts: RunFacts) -> "Iterator[str]":
    """Files of `packages` outside the repository that were written since the Pod began."""
    tree = os.path.realpath(facts.tree) + os.sep
    for name in packages:
        for folder in getattr(sys.modules.get(name), "__path__", []):
            for parent, _, files in os.walk(folder):
                for path in (os.path.join(parent, file) for file in files if file.endswith(".py")):
                    if not os.path.realpath(path).startswith(tree) and os.stat(path).st_ctime > facts.began:
                        yield path


def written_before_tests(facts: RunFacts) -> "list[str]":
    """What installation steps wrote of what this process runs: program, loaded modules, files of the tests.

    Modules that are copies of the work tree's own are none of it. Files of the tests have a digest of their content.
    """
    modules = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
    tests = [os.path.join(facts.tree, path) for path in facts.tests]
    programs = [sys.executable, getattr(sys, "argv", [""])[0]]
    found = {path for path in programs + modules + tests if path and _is_written(path, facts.installing)}
    found.update(path for path in modules + tests if path.endswith(".py") and _is_precompiled(path, facts))
    names = []
    for path in sorted(found):
        if not _is_copy(path, facts):
            digest = " " + in_letters(_content(path)) if path in tests and not facts.is_patched(path) else ""
            names.append(facts.short(path).encode("utf-8", "replace").decode() + ": written" + digest)
    return names[:MAX_WRITTEN]


def in_letters(content: bytes) -> str:
    """A digest without digits, which count as parts of versions."""
    return hashlib.sha256(content).hexdigest()[:16].translate(LETTERS)


def _is_written(path: str, since: float, until: float = float("inf")) -> bool:
    try:
        return since < os.stat(path).st_ctime <= until
    except OSError:
        return False


def _is_copy(path: str, facts: RunFacts) -> bool:
    """Whether a module outside the work tree has the content of the tree's own of that name."""
    if facts.short(path) != path:
        return False
    inside = [os.path.relpath(path, folder) for folder in sys.path if path.startswith(folder + os.sep)]
    own = [os.path.join(facts.tree, root, each) for root in ("", "src", "lib") for each in inside]
    return bool(_content(path)) and _content(path) in [_content(each) for each in own]


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _is_precompiled(path: str, facts: RunFacts) -> bool:
    """Whether installation steps left other code for a module than its source compiles to."""
    opened = os.stat(facts.folder + "/opened").st_mtime  # when the tests began
    folder, name = os.path.join(os.path.dirname(path), "__pycache__"), os.path.basename(path)[:-2]
    try:
        found = [os.path.join(folder, each) for each in os.listdir(folder) if each.startswith(name + TAG)]
    except OSError:
        return False
    return any(_is_written(each, facts.installing, opened) and _differs(each, path) for each in found)


def _differs(compiled: str, path: str) -> bool:
    try:
        code = marshal.loads(_content(compiled)[16 if sys.version_info >= (3, 7) else 12 :])
        return bool(code != compile(_content(path), code.co_filename, "exec", dont_inherit=True))
    except Exception:  # it is no compiled module
        return True


def listen(facts: RunFacts, record: Record) -> None:
    """From now on report code that looks for what belongs to grading (Python 3.8 or newer)."""
    if hasattr(sys, "addaudithook"):
        private = (os.path.dirname(facts.folder) + os.sep, os.path.dirname(HERE) + os.sep)
        sys.addaudithook(functools.partial(_watch, facts, record, private))


def _watch(facts: RunFacts, record: Record, private: "tuple[str, str]", event: str, about: "tuple[Any]") -> None:
    if event == "open" and isinstance(about[0], (str, bytes)):
        path = about[0] if isinstance(about[0], str) else about[0].decode("utf-8", "surrogateescape")
        if path.startswith(private) and not path.startswith(HERE):  # its source is read for tracebacks
            record.write("alarm", "the tests' code opened " + path + ", which belongs to grading")
    elif event in MEMORY_SEARCHES:
        path = sys._getframe(1).f_code.co_filename
        if facts.is_patched(path):
            record.write("suspicion", facts.short(path) + " searches the memory of the test process")
