"""The driver's log outlives the head: it is in the job's folder, from its first line to its last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, sys
from pathlib import Path
from swerl_trainer.driver.log import DriverLog

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
log = DriverLog()
logging.info("before the folder is known")
log.write_to(Path(sys.argv[1]))
try:
    raise ValueError("the volume is gone")
except ValueError:
    logging.exception("the process failed")
print(len(logging.getLogger().handlers), "handlers")
"""


def run(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, timeout=60)


def test_log_has_what_was_said_before_and_the_last_error(tmp_path: Path) -> None:
    ended = run(tmp_path / "logs" / "1" / "driver.log")
    assert ended.returncode == 0
    lines = (tmp_path / "logs" / "1" / "driver.log").read_text()
    assert lines.index("INFO root: before the folder is known") < lines.index("ERROR root: the process failed")
    assert "ValueError: the volume is gone" in lines


def test_log_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run(tmp_path / "file" / "driver.log")
    assert ended.returncode == 0
    assert "the driver's log is on standard output only" in ended.stdout
    assert "1 handlers" in ended.stdout, "no queue fills that nothing empties"
