"""inspect_ai and harbor as users install them, each in an environment of its own: what they read of an export.

Their pins contradict those of the agent, so they are no requirements of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.layout import locked, swerl_home
from demo.cluster import ROOT
from demo.environment import ensure

INSPECT = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries, read_eval_log_samples

log = read_eval_log(sys.argv[1])
whole = log.status == "success"
samples = [each.id for each in read_eval_log_samples(sys.argv[1], all_samples_required=whole)]
summaries = [each.model_dump(mode="json") for each in read_eval_log_sample_summaries(sys.argv[1])]
print(json.dumps({"log": log.model_dump(mode="json"), "samples": samples, "summaries": summaries}))
"""
HARBOR = """
import json, sys
from pathlib import Path
from fastapi.testclient import TestClient
from harbor.utils.trajectory_validator import TrajectoryValidator
from harbor.viewer import create_app

root = Path(sys.argv[1])
client = TestClient(create_app(root), base_url="http://127.0.0.1")

def faults(path):
    validator = TrajectoryValidator()
    return [] if validator.validate(path) else [f"{path}: {error}" for error in validator.errors]

def get(path):
    answer = client.get("/api/jobs" + path)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return answer.json()

def trial(path):
    files = get(path + "/artifacts")["files"]
    return {"result": get(path), "trajectory": get(path + "/trajectory"), "files": [each["name"] for each in files]}

def job(name):
    trials = [each["name"] for each in get(f"/{name}/trials")["items"]]
    return {"config": get(f"/{name}/config"), "trials": {each: trial(f"/{name}/trials/{each}") for each in trials}}

found = [fault for path in root.glob("*/*/agent/trajectory.json") for fault in faults(path)]
print(json.dumps({"faults": found, "jobs": {each["name"]: each | job(each["name"]) for each in get("")["items"]}}))
"""


def inspect_reads(log: Path) -> dict[str, Any]:
    """`log`, the ids of its `samples` as they are read one by one, and their `summaries`."""
    return _run([str(_environment("inspect", sys.executable)), "-c", INSPECT, str(log)])


def inspect_dump(log: Path) -> dict[str, Any]:
    """What its command line prints of a log."""
    return _run([str(_environment("inspect", sys.executable).with_name("inspect")), "log", "dump", str(log)])


def harbor_shows(folder: Path, python: str) -> dict[str, Any]:
    """`faults` of its validator, and the `jobs` of its viewer with all that the pages request."""
    return _run([str(_environment("harbor", python)), "-c", HARBOR, str(folder)])


def python_of_harbor() -> str | None:
    """An interpreter of Python 3.12 or newer, which harbor needs; None where there is none."""
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))"
    for candidate in _interpreters():
        if subprocess.run([candidate, "-c", check], capture_output=True).returncode == 0:
            return candidate
    return None


def _interpreters() -> Iterator[str]:
    yield sys.executable
    for version in ("3.12", "3.13", "3.14"):
        yield from filter(None, [shutil.which(f"python{version}")])
        yield from (str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))


def _environment(name: str, interpreter: str) -> Path:
    """The interpreter of the environment with the pins of `requirements/<name>.txt`, which is made once."""
    folder = swerl_home() / f"{name}-venv"
    with locked(folder.with_suffix(".lock")):
        return ensure(folder, ROOT / "requirements" / f"{name}.txt", interpreter)


def _run(command: list[str]) -> dict[str, Any]:
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=without)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found
