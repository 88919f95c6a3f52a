"""The console of the demo: before the job has its volume, and over what the job writes there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from demo.job import JOB, volume_folder
from tests.unit.agent.console.artifacts import write_job

# What `make demo-console` runs, without its environment.
PROGRAM = """
import sys
from demo import __main__ as program

program.enter_environment = lambda name, arguments: None
sys.exit(program.main(["console", "--port", "0"]))
"""


def test_console_waits_for_the_volume_and_leaves_it_unchanged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWERL_HOME", str(tmp_path))
    for variable in ("SWERL_CLUSTER", "SWERL_CLUSTER_NAME"):
        monkeypatch.delenv(variable, raising=False)
    environment = dict(os.environ)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, text=True, stdout=subprocess.PIPE
    ) as served:
        assert served.stdout
        waits = served.stdout.readline()
        assert waits == f"waiting for the job's volume: {volume_folder()} (Ctrl-C stops)\n"
        write_job(tmp_path / "made" / JOB, steps=1)
        volume_folder().parent.mkdir(parents=True)
        (tmp_path / "made").rename(volume_folder())
        found = re.fullmatch(r"serving (\S+) at (\S+)\n", served.stdout.readline())
        assert found and found[1] == str(volume_folder())
        with urllib.request.urlopen(found[2], timeout=30) as page:
            assert page.status == 200
        served.terminate()
    assert served.returncode == 0
    assert [path.name for path in volume_folder().iterdir()] == [JOB]
