"""Run the test file of many work trees, one forked process each: `outcomes.py <folder>:<test file> …`.

Prints one JSON object, {folder: {test name: passed}}; forking spares the start of an interpreter per tree.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import pytest


class Recorder:
    """Keeps the outcome of every test's call."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        self.passed[name] = self.passed.get(name, True) and not report.failed


def run(folder: str, test_file: str) -> dict[str, bool]:
    """Outcomes of one tree; call it in a process of its own."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    recorder = Recorder()
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, test_file], plugins=[recorder]
        )
    return recorder.passed


def main() -> None:
    sys.dont_write_bytecode = True
    outcomes: dict[str, dict[str, bool]] = {}
    for argument in sys.argv[1:]:
        folder, _, test_file = argument.rpartition(":")
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                json.dump(run(folder, test_file), pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            outcomes[Path(folder).name] = json.load(pipe)
        os.wait()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
