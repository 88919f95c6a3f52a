"""The commands of a newcomer's first job, as docs/jobs.md has them, until the job has its RayCluster.

The model is the tiny one and the tasks are bundled ones, on a claim; the image has no Ray, so no driver runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from swerl_agent.tasks import format_of, load_tasks
from swerl_agent.tasks.writing import grading_columns, visible_columns

from tests.control_plane.operator_process import Operator
from tests.unit.docs.test_first_job import commands

from .conftest import IMAGE, ROOT, JobNamespace
from .evaluations import config_map

NAME = "qwen3-4b"  # the folder of the model on the claim has the documented model's name, and so has the job
# What differs on this cluster: there is no Hub, no GPU, and the test does not ask the cluster's own registry.
CHANGED = {"Qwen/Qwen3-4B": f"swe-tasks:{NAME}"}
ADDED = {
    "init": ["--gpus", "0", "--image", IMAGE],
    "validate": ["--no-images"],
    "submit": ["--no-images"],
    "watch": ["--once"],
}


@pytest.fixture
def claims(kube: JobNamespace) -> None:
    """The claims of the documented job: `runs`, and `swe-tasks` with the model in `qwen3-4b` and tasks in `train`."""
    for name in ("runs", "swe-tasks"):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
        kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
    train = ROOT / "tasks/train"
    rows = [visible_columns(task) | grading_columns(task) for task in load_tasks(train, format_of(train), slice="0:2")]
    files = {"tasks.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows)}
    config_map(kube, "files", files | {"config.json": (ROOT / "tiny_model/model/config.json").read_text()})
    script = f"cd /claim && mkdir {NAME} train && cp /files/config.json {NAME}/ && cp /files/tasks.jsonl train/"
    loader = {
        "name": "loader",
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "claim", "mountPath": "/claim"}, {"name": "files", "mountPath": "/files"}],
    }
    volumes = [
        {"name": "claim", "persistentVolumeClaim": {"claimName": "swe-tasks"}},
        {"name": "files", "configMap": {"name": "files"}},
    ]
    spec = {"restartPolicy": "Never", "containers": [loader], "volumes": volumes}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loader"}, "spec": spec})
    kube.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/loader", "--timeout=100s")


def swerl(kube: JobNamespace, folder: Path, *words: str) -> str:
    """Standard output of `swerl` in `folder`; fails the test when it fails."""
    place = ["--kubeconfig", kube.kubeconfig, "--namespace", kube.namespace]
    command = [sys.executable, "-m", "swerl_agent.cli", *words, *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=folder, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_documented_commands_start_a_job(kube: JobNamespace, operator: Operator, claims: None, tmp_path: Path) -> None:
    written, validated, submitted, watched = (
        [CHANGED.get(word, word) for word in words[1:]] + ADDED[words[1]] for words in commands()
    )
    swerl(kube, tmp_path, *written)
    assert swerl(kube, tmp_path, *validated).splitlines()[-1] == "job.yaml: no errors"
    assert f"SweRLJob {NAME} created in {kube.namespace}" in swerl(kube, tmp_path, *submitted)
    kube.until_condition(NAME, "ImagesReady", "ImagesPulled", 120)
    kube.until(lambda: kube.names("rayclusters"), lambda found: found == [f"raycluster.ray.io/{NAME}-1"], 300)
    assert NAME in swerl(kube, tmp_path, *watched)
    assert NAME in swerl(kube, tmp_path, "list")
    assert swerl(kube, tmp_path, "describe", NAME).startswith(f"{NAME} in {kube.namespace}: ")
    swerl(kube, tmp_path, "cancel", NAME, "--yes", "--wait", "60")
    assert f"swerljob.swerl.dev/{NAME}" not in kube.names("swerl")
