"""Places of clusters: apart from each other, stable for each."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cluster import build, layout, preflight, targets
from cluster.errors import ClusterError, PrerequisiteError
from cluster.families import DUAL_STACK
from cluster.layout import MAX_CLUSTERS, Cluster
from cluster.preflight import DiskNeeds


def test_networks_and_ports_of_clusters_never_overlap() -> None:
    clusters = [Cluster("c", index, Path("/home"), families=DUAL_STACK) for index in range(MAX_CLUSTERS)]
    names = [cidr for c in clusters for cidr in (*c.link_cidrs, *c.pod_cidrs, *c.service_cidrs)]
    cidrs = [ipaddress.ip_network(name) for name in names]
    assert len(cidrs) == 6 * MAX_CLUSTERS and all(cidr.is_private for cidr in cidrs)
    assert not any(a.version == b.version and a.overlaps(b) for i, a in enumerate(cidrs) for b in cidrs[:i])
    assert len({cluster.registry_port for cluster in clusters}) == MAX_CLUSTERS


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def reserve(run_folder: Path) -> Callable[[str, Path], Cluster]:
    """Reserves on a machine that uses none of the clusters' networks and ports."""
    return partial(layout.reserve, run_folder=run_folder, is_free=lambda cluster: True)


Reserve = Callable[[str, Path], Cluster]


def test_reservation_is_kept_per_name_and_void_after_a_boot(tmp_path: Path, run_folder: Path, reserve: Reserve) -> None:
    first, second = reserve("default", tmp_path), reserve("second", tmp_path)
    assert (first.index, second.index) == (0, 1)
    assert reserve("second", tmp_path) == second == layout.find("second", tmp_path, run_folder)
    owner = second.run / "owner.json"
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "boot": "an earlier one"}))
    assert layout.find("second", tmp_path, run_folder) is None
    layout.release(first)
    assert reserve("third", tmp_path).index == 0


def test_images_go_to_the_registry_of_the_cluster_of_this_home(
    tmp_path: Path, run_folder: Path, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWERL_REGISTRY", raising=False)
    monkeypatch.setenv("SWERL_HOME", str(tmp_path / "mine"))
    assert layout.registry(run_folder) == "127.0.0.1:5000"
    reserve("default", tmp_path / "another's")
    reserve("default", tmp_path / "mine")
    assert layout.registry(run_folder) == "127.0.0.1:5001"
    monkeypatch.setenv("SWERL_REGISTRY", "registry.test/path")
    assert layout.registry(run_folder) == "registry.test/path"


def test_images_go_to_the_cluster_that_is_named(
    tmp_path: Path, run_folder: Path, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWERL_REGISTRY", raising=False)
    monkeypatch.setenv("SWERL_HOME", str(tmp_path))
    for name in ("default", "second"):
        reserve(name, tmp_path)
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "second")
    assert layout.registry(run_folder) == "127.0.0.1:5001"
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "")
    assert layout.registry(run_folder) == "127.0.0.1:5000"


def test_cluster_name_is_read_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWERL_CLUSTER_NAME", raising=False)
    assert layout.cluster_name() == "default"
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "second")
    assert layout.cluster_name() == "second"
    monkeypatch.setenv("SWERL_CLUSTER_NAME", "../second")
    with pytest.raises(ClusterError, match="DNS label"):
        layout.cluster_name()


def test_only_the_default_cluster_is_meant_without_its_name(tmp_path: Path) -> None:
    assert layout.state_folder(tmp_path, "default") == tmp_path / "cluster"
    assert layout.state_folder(tmp_path, "second") == tmp_path / "clusters" / "second"
    assert layout.make_command("cluster", "default") == "make cluster"
    assert layout.make_command("cluster", "second") == "SWERL_CLUSTER_NAME=second make cluster"


def test_home_path_is_normalised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWERL_HOME", f"{tmp_path}/checkout/../home/")
    assert str(layout.swerl_home()) == f"{tmp_path}/home"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWERL_HOME", "home")
    assert layout.swerl_home() == tmp_path / "home"


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-x", "x" * 40])
def test_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="DNS label"):
        layout.check_name(name)


def test_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"GiB free on the disk of .*1000000000 needed") as caught:
        preflight.check(tmp_path, DiskNeeds(0, programs=10**9, registry=0, image_builds=0))
    assert "\n" not in str(caught.value)


def test_separate_disk_of_images_is_checked(tmp_path: Path) -> None:
    needs = DiskNeeds(0, 0, 0, image_builds=10**9, image_storage=tmp_path / "containers")
    with pytest.raises(PrerequisiteError, match=r"disk of .*, 1000000000 needed: make room, or set SWERL_HOME"):
        preflight.check(tmp_path, needs)
    with pytest.raises(PrerequisiteError, match=r"disk of /dev/shm, 1000000000 needed: make room, .*buildah rmi"):
        preflight.check(tmp_path, replace(needs, image_storage=Path("/dev/shm/containers")))


def test_missing_root_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(PrerequisiteError, match="run as root"):
        preflight.check(tmp_path)


def test_images_not_built_yet_need_room_although_all_programs_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "built", lambda home, name: True)
    needs = DiskNeeds(0, registry=10**9, image_builds=0)
    with pytest.raises(PrerequisiteError, match="1000000000 needed"):
        preflight.check(tmp_path, needs)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "images.json").write_text("{}")
    preflight.check(tmp_path, needs)


@pytest.mark.parametrize("command", [["cluster", "up"], ["demo"]], ids=["cluster", "demo"])
def test_missing_go_is_one_line_and_creates_nothing(tmp_path: Path, command: list[str]) -> None:
    environment = {"PATH": str(tmp_path / "empty"), "SWERL_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=targets.SOURCES.parent, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    stderr_lines = done.stderr.splitlines()
    assert len(stderr_lines) == 1 and "no Go on PATH" in stderr_lines[0], done.stderr
    assert not (tmp_path / "home" / "venv").exists() and "Traceback" not in done.stdout


@pytest.mark.parametrize(("version_output", "message"), [("go1.19.8", "too old"), (None, "no Go on PATH")])
def test_missing_or_old_go_is_reported(
    version_output: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go(*_: object) -> str:
        if version_output is None:
            raise FileNotFoundError("go")
        return version_output

    monkeypatch.setattr(build, "_go", go)
    with pytest.raises(PrerequisiteError, match=message):
        build.go_version.__wrapped__()


def test_every_target_pins_its_modules_and_is_named_by_content(tmp_path: Path) -> None:
    folders = {build.folder(tmp_path, name) for name in targets.TARGETS}
    assert len(folders) == len(targets.TARGETS)
    for name in targets.TARGETS:
        assert (targets.TARGETS[name]().folder / "go.mod").is_file()
