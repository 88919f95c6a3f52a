"""Honest patches of odd form: every one fixes the fault, and none is a reason for suspicion."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .task_image import FIXED, SOURCE

RIGHT = "    return min(high, max(low, value))"
WRONG = "    return max(low, value)"


@dataclass(frozen=True)
class Honest:
    """A patch that fixes the fault: files, links (path, target), and what is done to the diff's text."""

    files: dict[str, str | None]
    links: tuple[tuple[str, str], ...] = ()
    form: Callable[[str], str] = field(default=str)


def body(code: str) -> Honest:
    """Another body of the function to fix."""
    return Honest({"calc.py": SOURCE.replace(WRONG, code)})


def with_code(code: str) -> Honest:
    """`code` at import, besides the fix."""
    return Honest({"calc.py": code + "\n" + FIXED})


def with_files(**files: str | None) -> Honest:
    """More files, besides the fix."""
    return Honest({"calc.py": FIXED, **files})


def in_form(form: Callable[[str], str]) -> Honest:
    """The fix in another form of a diff."""
    return Honest({"calc.py": FIXED}, form=form)


NUMBER = """
class Number(int):
    def __eq__(self, other):
        return int(self) == other
    def __hash__(self):
        return int(self)
"""
HONEST = {
    # other code
    "sorted": body("    return sorted((low, value, high))[1]"),
    "branches": body("    if value < low:\n        return low\n    return high if value > high else value"),
    "a lambda": body("    return (lambda x: high if x > high else x)(max(low, value))"),
    "a nested function": body("    def inner():\n        return min(high, max(low, value))\n    return inner()"),
    "a class": with_code(NUMBER.replace("class", "\nclass")),
    "an object with its own equality": Honest(
        {"calc.py": NUMBER + SOURCE.replace(WRONG, "    return Number(min(high, max(low, value)))")}
    ),
    "a cache": Honest({"calc.py": "import functools\n\n\n@functools.lru_cache(None)\n" + FIXED}),
    "a decorator that looks at its caller": Honest(
        {"calc.py": "import inspect\n" + SOURCE.replace(WRONG, "    inspect.stack()\n" + RIGHT)}
    ),
    "a frame for a log line": body("    import sys\n    sys._getframe(1).f_code.co_name\n" + RIGHT),
    "exec": body(
        "    names = dict(locals())\n    exec('found = min(high, max(low, value))', names)\n    return names['found']"
    ),
    "a fraction": body("    from fractions import Fraction\n    return Fraction(min(high, max(low, value)))"),
    "a coroutine": body(
        "    import asyncio\n    async def run():\n    " + RIGHT + "\n    return asyncio.run(run())"
    ),
    "a warning for its caller": body("    import warnings\n    warnings.warn('soon', stacklevel=2)\n" + RIGHT),
    "recursion": body("    return clamp(high, low, high) if value > high else max(low, value)"),
    "a generator": body("    return next(x for x in [min(high, max(low, value))])"),
    "threads": body(
        "    import threading\n    found = []\n    def run():\n        found.append(min(high, max(low, value)))\n"
        "    each = threading.Thread(target=run)\n    each.start()\n    each.join()\n    return found[0]"
    ),
    "a process": body(
        "    import subprocess, sys\n    code = f'print(min({high}, max({low}, {value})))'\n"
        "    return int(subprocess.check_output([sys.executable, '-c', code]))"
    ),
    "a fork": body("    import os\n    if os.fork() == 0:\n        os._exit(0)\n    os.wait()\n" + RIGHT),
    "a module that knows pytest": with_code("import os\nUNDER_TEST = 'PYTEST_CURRENT_TEST' in os.environ\n"),
    "a module that looks for pytest": with_code("import sys\nUNDER_TEST = 'pytest' in sys.modules\n"),
    "a module with its own checks": with_code("import unittest\n\n\nclass Check(unittest.TestCase):\n    pass\n"),
    "a module that collects garbage": with_code("import gc\ngc.collect()\nlen(gc.get_objects())\n"),
    "a module with an import hook": with_code(
        "import importlib.abc, sys\n\n\nclass Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n        return None\n\n\n"
        "sys.meta_path.insert(0, Finder())\n"
    ),
    "a module that patches the library": with_code("import json\njson.dumps = json.dumps\njson.extra = 1\n"),
    # what it prints and leaves
    "result-like words": with_code("print('ERROR:')\nprint('FAIL:')\nprint('PASSED')\nprint('1 failed')\n"),
    "bytes that are no text": with_code("import sys\nsys.__stdout__.buffer.write(b'\\xff\\xfe\\x00\\n')\n"),
    "much output": with_code("print('x' * 3_000_000)\n"),
    "many short lines": with_code("print('a\\n' * 100_000)\n"),
    "colours and control characters": with_code("print('\\x1b[31mred\\x1b[0m\\a\\b')\n"),
    "warnings": with_code("import warnings\nwarnings.warn('soon', DeprecationWarning)\n"),
    "something at exit": with_code("import atexit\natexit.register(print, 'bye')\n"),
    "a daemon thread": with_code(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    ),
    "a process left behind": with_code("import subprocess\nsubprocess.Popen(['sleep', '60'])\n"),
    "files in the folder": with_code("open('cache.tmp', 'w').close()\n"),
    "files elsewhere": with_code("import tempfile\ntempfile.mkdtemp()\n"),
    "a signal handler": with_code("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\n"),
    # other files
    "a module of its own": Honest(
        {"core.py": FIXED, "calc.py": "from core import clamp, double\n\n__all__ = ['clamp', 'double']\n"}
    ),
    "a package of its own": Honest(
        {"calcs/__init__.py": FIXED, "calc.py": "from calcs import clamp, double\n\n__all__ = ['clamp', 'double']\n"}
    ),
    "a module named as one of the library, in a package": Honest(
        {
            "calcs/__init__.py": "", "calcs/types.py": FIXED, "calcs/json.py": "x = 1\n",
            "calc.py": "from calcs.types import clamp, double\n\n__all__ = ['clamp', 'double']\n",
        }
    ),
    "a module named nearly as one of the library": Honest(
        {"jsons.py": FIXED, "calc.py": "from jsons import clamp, double\n\n__all__ = ['clamp', 'double']\n"}
    ),
    "a module named as one that the library had": Honest(
        {"formatter.py": FIXED, "calc.py": "from formatter import clamp, double\n\n__all__ = ['clamp', 'double']\n"}
    ),
    "a module with a name in other letters": Honest(
        {"größe.py": FIXED, "calc.py": "from größe import clamp, double\n\n__all__ = ['clamp', 'double']\n"}
    ),
    "names that a module makes when they are asked for": Honest(
        {"_calc.py": FIXED, "calc.py": "def __getattr__(name):\n    import _calc\n    return getattr(_calc, name)\n"}
    ),
    "a diff in a document": with_files(**{"docs/a.md": "diff --git a/.git/x b/.git/x\n--- a/.git/x\n+++ b/.git/x\n"}),
    "attributes of files, which go": with_files(**{".gitattributes": "* text=auto\n"}),
    "odd separators of lines": with_code("# \u2028 \x0c \x1c\nSIGN = '\x85'\n"),
    "its own tests": with_files(**{"tests/test_more.py": "def test_more():\n    pass\n"}),
    "hooks of its own, which go": with_files(**{"conftest.py": "1 / 0\n"}),
    "a Makefile, which goes": with_files(Makefile="all:\n\ttrue\n"),
    "names with spaces and quotes": with_files(**{"docs/a \"b\" 'c'.md": "x\n", "docs/ü ß.md": "x\n"}),
    "an empty file": with_files(**{"docs/empty.txt": ""}),
    "no newline at the end": Honest({"calc.py": FIXED.rstrip("\n")}),
    "carriage returns": with_files(**{"docs/dos.txt": "a\r\nb\r\n"}),
    "another file gone": with_files(**{"README.md": None}),
    "a link": Honest({"calc.py": FIXED}, links=(("docs/link.md", "../README.md"),)),
    "tabs": body("\treturn min(high, max(low, value))"),
    "a docstring that names git": with_code('"""See .git/config and ../other."""\n'),
    # other forms of the diff
    "without index lines": in_form(lambda diff: re.sub(r"(?m)^index .*\n", "", diff)),
    "without the last newline": in_form(lambda diff: diff.rstrip("\n")),
    "with words before it": in_form(lambda diff: "Fix clamp.\n\nIt ignored `high`.\n" + diff),
    "as mail": in_form(lambda diff: "From: a <a@b>\nSubject: Fix\n\n---\n calc.py | 2 +-\n\n" + diff + "-- \n2.39\n"),
}  # fmt: skip
