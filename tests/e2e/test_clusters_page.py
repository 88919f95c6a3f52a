"""The commands of docs/clusters.md as they stand, on the local cluster, with bundled tasks and the tiny model.

What differs from a reader's copy of the example folder: images by the local registry's tags, the default StorageClass,
a loader that finds tasks and model in an image, and the size of the job.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.layout import swerl_home
from demo.cluster import ROOT, DemoCluster
from demo.job import Images, documents
from demo.setup import RELEASE, install_operator
from tests.e2e.test_readme import remove_product

Json = dict[str, Any]
FOLDER = "examples/swe-gym-qwen3-4b"
REGISTRY = "registry.swerl:5000"
SETTINGS = {
    "TRAIN_TASKS": "/seed/tasks/train",
    "HELD_OUT_TASKS": "/seed/tasks/held_out",
    "HELD_OUT_LIMIT": "2",
    "CHECK_SLICE": "0:1",
    "MODEL": "/seed/model",
    "MODEL_REVISION": "",
}


def commands() -> list[str]:
    """Those of the page's first shell block."""
    page = (ROOT / "docs/clusters.md").read_text()
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def edit(path: Path, change: Callable[[list[Json]], None]) -> None:
    """Change the YAML documents of a file in place."""
    bodies = list(yaml.safe_load_all(path.read_text()))
    change(bodies)
    path.write_text(yaml.safe_dump_all(bodies))


def made_local(folder: Path, images: Images) -> None:
    """What a reader with this cluster, these tasks and this model would change in the folder."""
    trainer, data = (images[name].removeprefix(f"{REGISTRY}/") for name in ("trainer", "demo-data"))
    operator, _, tag = images["operator"].removeprefix(f"{REGISTRY}/").rpartition(":")

    def values(bodies: list[Json]) -> None:
        bodies[0]["image"] |= {"repository": operator, "tag": tag}

    def volume(bodies: list[Json]) -> None:
        del bodies[0]["spec"]["storageClassName"]
        bodies[0]["spec"]["resources"] = {"requests": {"storage": "4Gi"}}

    def loader(bodies: list[Json]) -> None:
        pod = bodies[2]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        seed = {"name": "seed", "mountPath": "/seed"}
        copy = ["sh", "-c", "cp -r /data/. /seed/"]
        image = f"registry.example.org/{data}"
        pod["initContainers"] = [{"name": "seed", "image": image, "command": copy, "volumeMounts": [seed]}]
        pod["volumes"].append({"name": "seed", "emptyDir": {}})
        container["image"] = f"registry.example.org/{trainer}"
        container["resources"] = {"requests": {"cpu": "50m", "memory": "256Mi"}}
        container["volumeMounts"].append(seed)

    def job(bodies: list[Json]) -> None:
        [job_body], tiny = bodies, documents()["SweRLJob"]["spec"]
        for section, format in (("tasks", "jsonl"), ("evaluation", "jsonl")):
            tiny[section] |= {"source": job_body["spec"][section]["source"], "format": format}
        tiny["model"]["source"] = job_body["spec"]["model"]["source"]
        tiny["checkpoint"]["volume"] = job_body["spec"]["checkpoint"]["volume"]
        tiny["sandbox"]["imageSet"] = job_body["spec"]["sandbox"]["imageSet"]
        tiny["trainer"]["image"] = f"registry.example.org/{trainer}"
        tiny["algorithm"] |= {"steps": 1, "promptsPerStep": 2, "groupSize": 2}
        prompts = documents()["ConfigMap"]
        prompts["metadata"]["namespace"] = job_body["metadata"]["namespace"]
        job_body["spec"] = tiny
        bodies.insert(0, prompts)

    for file, change in (("values", values), ("volume", volume), ("loader", loader), ("swerljob", job)):
        edit(folder / f"{file}.yaml", change)
    lines = "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
    (folder / "loader/settings.env").write_text(lines)


@pytest.fixture
def reader(product: tuple[DemoCluster, Images], tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A reader's terminal in a copy of the checkout, on a cluster where nothing of the product is installed."""
    cluster, images = product
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    made_local(tmp_path / FOLDER, images)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "swerl").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m swerl_agent.cli "$@"\n')
    (programs / "swerl").chmod(0o755)
    search = os.pathsep.join([str(programs), str(swerl_home() / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": search, "REGISTRY": REGISTRY}
    remove_product(cluster)

    def run(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, timeout=400, text=True, capture_output=True
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    yield run
    cluster.kubectl("delete", "swerljobs", "--all", "-n", "swe-gym", "--ignore-not-found")
    cluster.helm("uninstall", RELEASE, "--namespace", "swe-rl", "--ignore-not-found", "--wait")
    cluster.kubectl("delete", "namespace", "swe-gym", "swe-rl", "--ignore-not-found", "--wait=false")
    install_operator(cluster, images)


def test_page_has_at_most_ten_commands() -> None:
    assert 5 < len(commands()) <= 10


@pytest.mark.alone
def test_commands_of_the_page_lead_to_a_job_that_trains(reader: Callable[[str], str]) -> None:
    first, *others = commands()
    assert first == "export REGISTRY=registry.example.org"  # the reader's own
    outputs = {command: reader(command) for command in others}
    examined = next(output for command, output in outputs.items() if command.startswith("swerl doctor"))
    assert "ok       operator: swe-rl/swe-rl-operator" in examined
    assert "ok       network-policy: enforced" in examined
    checked = reader("kubectl logs -n swe-gym job/loader")
    assert "1 of 1 tasks are fit" in checked, checked
    assert "32 tasks: tasks/train/" in checked, checked
