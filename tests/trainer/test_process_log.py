"""The driver's log outlives the head Pod: the job's folder has it, from its first line to its last."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, sys
from pathlib import Path
from swerl_kube.logs import LogSettings, log_ids
from swerl_trainer.process_log import ProcessLog

settings = LogSettings(sys.argv[2], {"job": "demo"})
settings.configure(sys.stdout)
log = ProcessLog()
with log_ids(step=3):
    logging.info("before the %s is known", "folder")
log.write_to(Path(sys.argv[1]), settings.formatter())
try:
    raise ValueError("the volume is gone")
except ValueError:
    logging.exception("the process failed")
print(len(logging.getLogger().handlers), "handlers")
"""


def run(file: Path, form: str = "text") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, str(file), form], capture_output=True, text=True, timeout=60)


def test_log_has_what_was_said_before_and_the_last_error(tmp_path: Path) -> None:
    ended = run(tmp_path / "logs" / "1" / "driver.log")
    assert ended.returncode == 0
    lines = (tmp_path / "logs" / "1" / "driver.log").read_text()
    assert lines.index("INFO root: before the folder is known") < lines.index("ERROR root: the process failed")
    assert "ValueError: the volume is gone" in lines


def test_log_in_json_has_ids_and_the_error_on_one_line(tmp_path: Path) -> None:
    ended = run(tmp_path / "driver.log", "json")
    first, last = (json.loads(line) for line in (tmp_path / "driver.log").read_text().splitlines())
    assert (first["job"], first["step"], first["message"]) == ("demo", 3, "before the folder is known")
    assert "step" not in last and "ValueError: the volume is gone" in last["error"]
    assert json.loads(ended.stdout.splitlines()[0]) == first, "standard output has the same lines"


def test_log_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run(tmp_path / "file" / "driver.log")
    assert ended.returncode == 0
    assert "log lines of this process are in its Pod's log only" in ended.stdout
    assert "1 handlers" in ended.stdout, "no queue fills that nothing empties"
