"""Verdicts are those of the SWE-bench harness, on every log that it ships."""

from __future__ import annotations

import re
import subprocess
import sys


def test_every_recorded_log_has_the_harness_s_verdict() -> None:
    """In a process of its own, which imports the harness and puts recorders around its parsers."""
    done = subprocess.run([sys.executable, "-m", "tests.bench.parity_bench"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) verdicts \((\d+) resolved\), 0 differences", done.stdout)
    assert found is not None and int(found[1]) > int(found[2]) > 100, done.stdout
