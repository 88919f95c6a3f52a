"""The loader script of the example for real clusters: what it downloads, in the environment of the trainer's images."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server import hub_server
from tests.unit.agent.tasks.rows import parquet, swe_gym, swebench

ROOT = Path(__file__).parents[3]
LOADER = ROOT / "examples/swe-gym-qwen3-4b/loader"
MODEL_FILES = ("config.json", "tokenizer.json", "merges.txt", "model.safetensors")
OTHER_FILES = ("modeling_own.py", "pytorch_model.bin", "README.md")
DATA_SETS = {
    "SWE-Gym/SWE-Gym-Lite/data/train-00000-of-00001.parquet": swe_gym(),
    "SWE-bench/SWE-bench_Verified/data/test-00000-of-00001.parquet": swebench(),
}
# python3 of the Pod, without its cluster: no gradings, no ConfigMap.
PYTHON = """#!/bin/sh
case "$*" in
  *" tasks check "*) mkdir -p check && : >check/quarantine.jsonl ;;
  */publish.py*) ;;
  *) exec "{python}" "$@" ;;
esac
"""


@pytest.fixture
def hub_url(tmp_path: Path) -> Iterator[str]:
    """A hub with the data sets and the model that settings.env names."""
    for name in (*MODEL_FILES, *OTHER_FILES):
        path = tmp_path / "hub/Qwen/Qwen3-4B" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for name, row in DATA_SETS.items():
        path = tmp_path / "hub/datasets" / name
        path.parent.mkdir(parents=True)
        parquet(path, row)
    with hub_server(tmp_path / "hub") as url:
        yield url


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs that the script finds in the Pod."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text(PYTHON.format(python=sys.executable))
    (folder / "python3").chmod(0o755)
    (folder / "hf").symlink_to(shutil.which("hf", path=str(Path(sys.executable).parent)) or "hf")
    return folder


@pytest.fixture
def volume(tmp_path: Path, hub_url: str, programs: Path) -> Path:
    """The loader's volume after its script, with settings.env and the variables of the images."""
    data = tmp_path / "data"
    data.mkdir()
    script = (LOADER / "load.sh").read_text()
    assert "cd /data\n" in script
    settings = [line for line in (LOADER / "settings.env").read_text().splitlines() if not line.startswith("#")]
    environment = os.environ | {
        **dict(line.split("=", 1) for line in settings),
        "HF_HUB_OFFLINE": "1",
        "HF_TOKEN": "",  # of secret.yaml
        "HF_ENDPOINT": hub_url,
        "HF_HOME": str(tmp_path / "home"),
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    script = script.replace("cd /data\n", f"cd {data}\n")
    done = subprocess.run(["sh", "-c", script], env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return data


def test_loader_downloads_tasks_and_model(volume: Path) -> None:
    assert "getmoto__moto-5876" in (volume / "tasks/train/train.jsonl").read_text()
    assert "django__django-13820" in (volume / "tasks/held-out/held-out.jsonl").read_text()
    model = volume / "models/model"
    assert sorted(path.name for path in model.iterdir() if path.is_file()) == sorted(MODEL_FILES)
    assert (model / "model.safetensors").read_text() == "model.safetensors"
    assert "moto" in (volume / "images.txt").read_text()


def test_images_are_offline_but_for_the_loader() -> None:
    for file in ("Dockerfile.deps", "Dockerfile.gpu"):
        assert "HF_HUB_OFFLINE=1" in (ROOT / "images/trainer" / file).read_text()
