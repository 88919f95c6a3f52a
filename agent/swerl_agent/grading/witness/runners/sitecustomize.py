"""Starts the witness of a unittest run; its folder is first on PYTHONPATH while a script's test command runs.

Guarantees: in a process that is not the run itself nothing happens; a sitecustomize of the image is loaded as it would
have been. Runs on every Python that an image may have.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def is_test_run():  # type: ignore[no-untyped-def]
    """By plain comparison: what is imported here could be a module of the work tree."""
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[1:]
    if any(("/" + each.decode("latin-1")).endswith("/tests/runtests.py") for each in words):
        return True
    after = [words[number + 1] for number, word in enumerate(words[:-1]) if word == b"-m"]
    return any((each + b".").startswith(b"unittest.") for each in after)


def load_the_images_own():  # type: ignore[no-untyped-def]
    this = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = this


sys.path[:] = [path for path in sys.path if path != HERE]
if "SWERL_WITNESS" in os.environ and is_test_run():  # type: ignore[no-untyped-call]
    sys.path.insert(0, os.path.dirname(HERE))
    __import__("swerl_unittest")
load_the_images_own()  # type: ignore[no-untyped-call]
