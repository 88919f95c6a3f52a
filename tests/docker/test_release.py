"""What BuildKit makes of the bake file of a release: images with labels, SBOM and provenance, pushed or as archives.

Platforms other than this machine's need emulation, and the trainer's packages an hour: sandbox-base stands below the
trainer's code here. The release's own command makes the two other images.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent import RELEASE

from cluster import build
from cluster.layout import swerl_home
from images.catalogue import BASES, DEBIAN, ROOT
from release.__main__ import BAKE_FILE
from release.bake import LABEL, Release, bake_definition, write_contexts
from tests.docker.buildkit import BUILDER, BuildKit, running_buildkit
from tests.docker.daemon import install_docker

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
    (folder / BAKE_FILE).write_text(json.dumps(bake_definition(release, dict.fromkeys(BASES, base))))
    changes = (f"*.platform=linux/{ARCHITECTURE}", "trainer-deps.context=contexts/sandbox-base")
    options = ["--builder", BUILDER, "--file", BAKE_FILE, "--metadata-file", "images/digests.json"]
    options += [word for change in changes for word in ("--set", change)]
    buildkit.buildx("bake", *options, *names, folder=folder, epoch=release.epoch)
    found: dict[str, Any] = json.loads((folder / "images/digests.json").read_text())
    return found


@pytest.fixture(scope="module")
def pushed(buildkit: BuildKit, base: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return bake(buildkit, tmp_path_factory.mktemp("pushed"), base, f"{buildkit.registry}/team", *USERS)


def reference(buildkit: BuildKit, name: str, path: str = "team") -> str:
    return f"{buildkit.registry}/{path}/swe-rl/{name}:{RELEASE}"


def config_of(buildkit: BuildKit, image: str) -> dict[str, Any]:
    """User, labels and the like of an image in the registry."""
    shown = buildkit.run("skopeo", "inspect", "--config", "--tls-verify=false", f"docker://{image}")
    found: dict[str, Any] = json.loads(shown)["config"]
    return found


def inspect(buildkit: BuildKit, image: str, part: str) -> dict[str, Any]:
    """A part of an image's index, as `docker buildx imagetools inspect` shows it."""
    found: dict[str, Any] = json.loads(
        buildkit.buildx("imagetools", "inspect", "--format", f"{{{{json .{part}}}}}", image)
    )
    return found


@pytest.mark.parametrize("name", USERS)
def test_image_is_in_the_registry_under_the_version(buildkit: BuildKit, pushed: dict[str, Any], name: str) -> None:
    assert pushed[name]["image.name"] == reference(buildkit, name)
    assert pushed[name]["containerimage.digest"] == inspect(buildkit, reference(buildkit, name), "Manifest")["digest"]


@pytest.mark.parametrize(("name", "user"), USERS.items())
def test_image_has_labels_and_its_user(
    buildkit: BuildKit, pushed: dict[str, Any], base: str, name: str, user: str
) -> None:
    config = config_of(buildkit, reference(buildkit, name))
    assert pushed and config.get("User", "") == user
    assert config["Labels"][f"{LABEL}.version"] == RELEASE
    assert config["Labels"][f"{LABEL}.base.digest"] == base


@pytest.mark.parametrize("name", USERS)
def test_image_has_sbom_and_provenance(buildkit: BuildKit, pushed: dict[str, Any], base: str, name: str) -> None:
    image = reference(buildkit, name)
    assert inspect(buildkit, image, "SBOM")["SPDX"]["spdxVersion"] == "SPDX-2.3"
    provenance = json.dumps(inspect(buildkit, image, "Provenance"))
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


@pytest.fixture(scope="module")
def checkout(buildkit: BuildKit) -> Path:
    """The project as a commit of its own, as a push needs it."""
    copy = buildkit.folder / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache"))
    author = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    for command in (("init", "--quiet"), ("add", "--all"), (*author, "commit", "--quiet", "--message", "All")):
        subprocess.run(["git", *command], cwd=copy, check=True, env=os.environ | {"GIT_COMMITTER_DATE": CREATED})
    return copy


@pytest.fixture(scope="module")
def made(buildkit: BuildKit, base: str, checkout: Path) -> Path:
    """The folder of a release that its own command made and pushed; `base` is what it reads."""
    plugins = buildkit.folder / "docker/cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(build.build(swerl_home(), "buildx") / "buildx")
    if shutil.which("docker") is None:
        install_docker()
    folder, registry = buildkit.folder / "made", f"{buildkit.registry}/made"
    options = ("--images=operator,sandbox-base", f"--platforms=linux/{ARCHITECTURE}", f"--mirror={buildkit.registry}")
    command = (sys.executable, "-m", "release", f"--push={registry}", *options, f"--output={folder}")
    environment = {"DOCKER_CONFIG": str(buildkit.folder / "docker"), "PYTHONPATH": ""}  # the checkout's own code
    buildkit.run(*command, folder=checkout, environment=environment)
    return folder


@pytest.mark.parametrize("name", ["operator", "sandbox-base"])
def test_release_command_pushes_images_of_the_version(buildkit: BuildKit, base: str, made: Path, name: str) -> None:
    image = reference(buildkit, name, "made")
    digests = json.loads((made / "images/digests.json").read_text())
    assert digests[name]["image.name"] == image
    assert digests[name]["containerimage.digest"] == inspect(buildkit, image, "Manifest")["digest"]
    assert inspect(buildkit, image, "SBOM")["SPDX"]["spdxVersion"] == "SPDX-2.3"
    assert base.removeprefix("sha256:") in json.dumps(inspect(buildkit, image, "Provenance"))
    labels = config_of(buildkit, image)["Labels"]
    assert (labels[f"{LABEL}.version"], labels[f"{LABEL}.base.name"]) == (RELEASE, DEBIAN)
    assert labels[f"{LABEL}.base.digest"] == base and labels[f"{LABEL}.created"].startswith("2026-01-02T03:04:05")


def test_release_command_pushes_the_chart_beside_them(buildkit: BuildKit, made: Path) -> None:
    chart = f"oci://{buildkit.registry}/made/swe-rl"
    shown = buildkit.run("helm", "show", "chart", chart, "--version", RELEASE, "--plain-http")
    assert f"appVersion: {RELEASE}" in shown.replace('"', "") and (made / "SHA256SUMS").is_file()


def test_release_command_builds_only_what_was_asked_for(buildkit: BuildKit, made: Path) -> None:
    assert json.loads((made / BAKE_FILE).read_text())["group"]["default"]["targets"] == ["operator", "sandbox-base"]
