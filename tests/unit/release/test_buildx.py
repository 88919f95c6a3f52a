"""What the real buildx makes of the bake file of a release."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from swerl_agent import RELEASE

from cluster import build
from cluster.layout import swerl_home
from release.__main__ import BAKE_FILE
from release.bake import RELEASED, Release, bake_definition, base_images, write_contexts

DIGEST = f"sha256:{'0' * 64}"
REGISTRY = "registry.example.org/team"
BOTH = ["linux/amd64", "linux/arm64"]


def resolve(folder: Path, registry: str) -> dict[str, Any]:
    """Groups and targets of a release's bake file, as buildx would build them."""
    release = Release(RELEASE, "abc", "2026-01-02T03:04:05+00:00", registry)
    definition = bake_definition(release, dict.fromkeys(base_images(), DIGEST))
    write_contexts(folder)
    (folder / BAKE_FILE).write_text(json.dumps(definition))
    buildx = build.build(swerl_home(), "buildx") / "buildx"
    environment = os.environ | {"BUILDX_CONFIG": str(folder / "config")}
    command = [str(buildx), "bake", "--file", BAKE_FILE, "--print"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return resolve(tmp_path_factory.mktemp("pushed"), REGISTRY)


def test_every_target_resolves(pushed: dict[str, Any]) -> None:
    assert set(pushed["group"]["default"]["targets"]) == set(RELEASED)
    assert set(pushed["target"]) == {*RELEASED, "trainer-deps", "trainer-gpu-deps"}


def test_released_images_are_pushed_for_their_platforms_with_tag_and_labels(pushed: dict[str, Any]) -> None:
    platforms = {"operator": BOTH, "sandbox-base": BOTH, "trainer": BOTH[:1], "trainer-gpu": BOTH[:1]}
    for name in RELEASED:
        target = pushed["target"][name]
        assert (target["platforms"], target["output"]) == (platforms[name], [{"type": "registry"}])
        assert target["tags"] == [f"{REGISTRY}/swe-rl/{name}:{RELEASE}"]
        assert target["labels"]["org.opencontainers.image.version"] == RELEASE


def test_released_images_have_sbom_and_full_provenance(pushed: dict[str, Any]) -> None:
    for name in RELEASED:
        attested = {entry["type"]: entry for entry in pushed["target"][name]["attest"]}
        assert attested == {"sbom": {"type": "sbom"}, "provenance": {"type": "provenance", "mode": "max"}}


def test_dependencies_are_built_from_digests_and_not_pushed(pushed: dict[str, Any]) -> None:
    for name in ("trainer", "trainer-gpu"):
        target, below = pushed["target"][name], pushed["target"][f"{name}-deps"]
        assert target["contexts"] == {target["args"]["BASE"]: f"target:{name}-deps"}
        assert below["args"]["BASE"].endswith(f"@{DIGEST}") and below["output"] == [{"type": "cacheonly"}]


def test_images_without_a_registry_become_archives_of_the_oci(tmp_path: Path) -> None:
    targets = resolve(tmp_path, "")["target"]
    for name in RELEASED:
        assert targets[name]["output"] == [{"type": "oci", "dest": f"images/{name}.tar"}]
