"""What BuildKit makes of the bake file of a release: images with labels, SBOM and provenance, pushed or as archives.

Platforms other than this machine's need emulation, and the trainer's packages an hour: sandbox-base stands below the
trainer's code here.
"""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent import RELEASE

from images.catalogue import BASES, DEBIAN
from release.__main__ import BAKE_FILE
from release.bake import LABEL, Release, bake_definition, write_contexts
from tests.docker.buildkit import BUILDER, BuildKit, running_buildkit

pytestmark = pytest.mark.timeout(1800)
USERS = {"operator": "65532:65532", "sandbox-base": "", "trainer": "1000:1000"}
CREATED = "2026-01-02T03:04:05+00:00"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@pytest.fixture(scope="module")
def buildkit() -> Iterator[BuildKit]:
    with tempfile.TemporaryDirectory(prefix="swerl-buildkit-") as name:
        with running_buildkit(Path(name)) as kit:
            yield kit
        assert name not in Path("/proc/mounts").read_text()


@pytest.fixture(scope="module")
def base(buildkit: BuildKit) -> str:
    """The digest of the base image."""
    return buildkit.digest(DEBIAN.removeprefix("docker.io/"))


def bake(buildkit: BuildKit, folder: Path, base: str, registry: str, *names: str) -> dict[str, Any]:
    """Metadata of what was built, per target."""
    release = Release(RELEASE, "abc", CREATED, registry)
    write_contexts(folder)
    (folder / "images").mkdir()
    (folder / BAKE_FILE).write_text(json.dumps(bake_definition(release, dict.fromkeys(BASES.values(), base))))
    changes = (f"*.platform=linux/{ARCHITECTURE}", "trainer-deps.context=contexts/sandbox-base")
    options = ["--builder", BUILDER, "--file", BAKE_FILE, "--metadata-file", "images/digests.json"]
    options += [word for change in changes for word in ("--set", change)]
    buildkit.buildx("bake", *options, *names, folder=folder, epoch=release.epoch)
    found: dict[str, Any] = json.loads((folder / "images/digests.json").read_text())
    return found


@pytest.fixture(scope="module")
def pushed(buildkit: BuildKit, base: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return bake(buildkit, tmp_path_factory.mktemp("pushed"), base, f"{buildkit.registry}/team", *USERS)


def reference(buildkit: BuildKit, name: str) -> str:
    return f"{buildkit.registry}/team/swe-rl/{name}:{RELEASE}"


def inspect(buildkit: BuildKit, name: str, part: str) -> dict[str, Any]:
    """A part of an image's index, as `docker buildx imagetools inspect` shows it."""
    image = reference(buildkit, name)
    found: dict[str, Any] = json.loads(
        buildkit.buildx("imagetools", "inspect", "--format", f"{{{{json .{part}}}}}", image)
    )
    return found


@pytest.mark.parametrize("name", USERS)
def test_image_is_in_the_registry_under_the_version(buildkit: BuildKit, pushed: dict[str, Any], name: str) -> None:
    assert pushed[name]["image.name"] == reference(buildkit, name)
    assert pushed[name]["containerimage.digest"] == inspect(buildkit, name, "Manifest")["digest"]


@pytest.mark.parametrize(("name", "user"), USERS.items())
def test_image_has_labels_and_its_user(
    buildkit: BuildKit, pushed: dict[str, Any], base: str, name: str, user: str
) -> None:
    config = json.loads(
        buildkit.run("skopeo", "inspect", "--config", "--tls-verify=false", f"docker://{reference(buildkit, name)}")
    )["config"]
    assert pushed and config.get("User", "") == user
    assert config["Labels"][f"{LABEL}.version"] == RELEASE
    assert config["Labels"][f"{LABEL}.base.digest"] == base


@pytest.mark.parametrize("name", USERS)
def test_image_has_sbom_and_provenance(buildkit: BuildKit, pushed: dict[str, Any], base: str, name: str) -> None:
    assert inspect(buildkit, name, "SBOM")["SPDX"]["spdxVersion"] == "SPDX-2.3"
    provenance = json.dumps(inspect(buildkit, name, "Provenance"))
    assert pushed and base.removeprefix("sha256:") in provenance


def test_released_operator_runs(buildkit: BuildKit, pushed: dict[str, Any]) -> None:
    store = [f"--root={buildkit.folder}/store", f"--runroot={buildkit.folder}/store-run", "--storage-driver=vfs"]
    image = reference(buildkit, "operator")
    container = buildkit.run("buildah", *store, "from", "--quiet", "--tls-verify=false", f"docker://{image}").strip()
    command = ("python3", "-m", "swerl_operator", "--help")
    said = buildkit.run("buildah", *store, "run", "--isolation", "chroot", container, "--", *command)
    assert pushed and "Kubernetes operator" in said


def test_without_a_registry_the_image_is_an_archive(
    buildkit: BuildKit, pushed: dict[str, Any], base: str, tmp_path: Path
) -> None:
    bake(buildkit, tmp_path, base, "", "operator")
    archive = f"oci-archive:{tmp_path}/images/operator.tar"
    labels = json.loads(buildkit.run("skopeo", "inspect", "--config", archive))["config"]["Labels"]
    assert pushed and labels[f"{LABEL}.title"] == "swe-rl/operator"
