"""inspect_ai and harbor as users install them, each with packages of its own: what they read of an export.

Their pins contradict those of the agent, so they are no requirements of it. Harbor needs Python 3.12, which Debian 12
does not have: it runs in an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cluster.layout import locked, swerl_home
from demo.cluster import ROOT
from tests.environments import environment_of

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
jobs = {each["name"]: each | job(each["name"]) for each in get("")["items"]}
Path(sys.argv[2]).write_text(json.dumps({"faults": found, "jobs": jobs}))
"""
IMAGE, IMAGE_PYTHON = "sandbox-base", "3.13"


def inspect_reads(log: Path) -> dict[str, Any]:
    """`log`, the ids of its `samples` as they are read one by one, and their `summaries`."""
    found: dict[str, Any] = json.loads(_run([str(environment_of("inspect")), "-c", INSPECT, str(log)]))
    return found


def inspect_dump(log: Path) -> dict[str, Any]:
    """What its command line prints of a log."""
    program = environment_of("inspect").with_name("inspect")
    found: dict[str, Any] = json.loads(_run([str(program), "log", "dump", str(log)]))
    return found


def harbor_shows(folder: Path) -> dict[str, Any]:
    """`faults` of its validator, and the `jobs` of its viewer with all that the pages request."""
    cache = swerl_home() / "images" / "cache"  # /cache in the image
    packages = _packages("harbor", cache)
    with TemporaryDirectory(dir=cache, prefix="harbor-") as shared:
        shutil.copytree(folder, Path(shared) / "export")
        inside = f"/cache/{Path(shared).name}"
        program = ["env", f"PYTHONPATH=/cache/{packages.name}", "python3", "-c", HARBOR]
        command = [sys.executable, "-m", "images", IMAGE, "--", *program, f"{inside}/export", f"{inside}/found.json"]
        _run(command)
        found: dict[str, Any] = json.loads((Path(shared) / "found.json").read_text())
    return found


def _packages(name: str, cache: Path) -> Path:
    """A folder with the packages of `requirements/<name>.txt` for the image's Python, which is filled once."""
    requirements = ROOT / "requirements" / f"{name}.txt"
    folder = cache / f"{name}-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{name}.lock"):
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            target = ["--python-version", IMAGE_PYTHON, "--python-platform", f"{platform.machine()}-unknown-linux-gnu"]
            target += ["--only-binary", ":all:", "--target", str(partial)]
            uv = str(Path(sys.prefix) / "bin" / "uv")
            _run([uv, "pip", "install", "-q", "--no-deps", *target, "-r", str(requirements)])
            partial.rename(folder)
    return folder


def _run(command: list[str]) -> str:
    """Its standard output."""
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=without, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
    return done.stdout
