"""Starts the witness of a unittest run; its folder is first on PYTHONPATH while a script's test command runs.

Guarantees: in a process that is not the run itself nothing happens; a sitecustomize of the image is loaded as it would
have been. Runs on every Python that an image may have.
"""

import os
import re
import sys

RUNNER = re.compile(b"\0(?:[^\0]*/)?tests/runtests\\.py\0|\0-m\0unittest(?:\\.[^\0]*)?\0")
HERE = os.path.dirname(os.path.abspath(__file__))


def is_test_run():  # type: ignore[no-untyped-def]
    with open("/proc/self/cmdline", "rb") as file:
        return RUNNER.search(file.read())


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
