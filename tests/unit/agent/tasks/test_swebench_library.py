"""swebench's modules for graders that start at once."""

from __future__ import annotations

import subprocess
import sys

AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
from swerl_agent.tasks.swebench_library import library
with ThreadPoolExecutor(8) as threads:
    found = {id(grading) for grading, _, _ in threads.map(lambda _: library(), range(8))}
assert len(found) == 1, found
"""


def test_threads_that_import_it_at_once_get_the_same_modules() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
