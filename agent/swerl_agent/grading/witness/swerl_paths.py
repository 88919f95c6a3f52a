"""Which entries of `sys.path` hold code of the work tree, of which a witness imports nothing, whatever its name.

Runs on Python 3.5 or newer, and needs only modules that every Python has loaded.
"""

import os
import sys


def work_tree() -> str:
    """The work tree of a witnessed process, '' in any other."""
    folder = os.environ.get("SWERL_WITNESS", "")
    try:
        with open(folder + "/facts", encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\n")[2] if folder else ""
    except (OSError, IndexError):
        return ""


def outside_tree(paths: "list[str]") -> "list[str]":
    """The entries that are neither the current folder nor in the work tree; Python's own libraries in it stay."""
    here, tree = os.path.realpath(os.getcwd()), work_tree()
    library = os.path.dirname(os.path.realpath(os.__file__))
    prefixes = [os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix)]

    def foreign(path: str) -> bool:
        real = os.path.realpath(path)
        if real == here or not tree or not _within(real, os.path.realpath(tree)):
            return real == here
        installed = os.path.basename(real) in ("site-packages", "dist-packages")
        return not (_within(real, library) or (installed and any(_within(real, prefix) for prefix in prefixes)))

    return [path for path in paths if path and not foreign(path)]


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
