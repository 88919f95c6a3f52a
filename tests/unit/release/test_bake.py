"""What `docker buildx bake` is given for a release."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_agent import RELEASE

from images.catalogue import ROOT, release
from release.__main__ import parse_options
from release.bake import RELEASED, Release, bake_definition, base_images, write_contexts

DIGEST = f"sha256:{'0' * 64}"
MADE = Release(release(), "abc", "2026-01-02T03:04:05+00:00", "registry.example.org/team")
IMAGE = re.compile(rf"\bswe-rl/({'|'.join(RELEASED)}):([\w.-]+)")


@pytest.fixture(scope="module")
def targets() -> dict[str, Any]:
    found: dict[str, Any] = bake_definition(MADE, dict.fromkeys(base_images(), DIGEST))["target"]
    return found


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    write_contexts(folder)
    return folder


def test_every_part_has_the_version_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts/Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {chart["version"], chart["appVersion"], project["version"], release()} == {RELEASE}


def test_chart_names_the_image_of_the_operator() -> None:
    image = yaml.safe_load((ROOT / "charts/values.yaml").read_text())["image"]
    assert (image["repository"], image["tag"]) == ("swe-rl/operator", "")  # the chart's appVersion


def examples() -> list[Path]:
    files = [path for path in (ROOT / "examples").rglob("*.yaml") if path.parent.name != "invalid"]
    return [*files, *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("file", examples(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_and_pages_name_released_tags(file: Path) -> None:
    assert [found for found in IMAGE.findall(file.read_text()) if found[1] != RELEASE] == []


def test_released_images_have_the_version_as_their_tag(targets: dict[str, Any]) -> None:
    tags = {name: target["tags"] for name, target in targets.items() if "tags" in target}
    assert tags == {name: [f"registry.example.org/team/swe-rl/{name}:{RELEASE}"] for name in RELEASED}


def test_released_images_have_labels_sbom_and_provenance(targets: dict[str, Any]) -> None:
    for name in RELEASED:
        labels, attested = targets[name]["labels"], targets[name]["attest"]
        assert labels["org.opencontainers.image.version"] == RELEASE
        assert labels["org.opencontainers.image.revision"] == "abc"
        assert labels["org.opencontainers.image.base.digest"] == DIGEST and all(labels.values())
        assert attested == ["type=sbom", "type=provenance,mode=max"]


def test_bases_are_named_by_digest_or_are_targets(targets: dict[str, Any]) -> None:
    for name, target in targets.items():
        base = target["args"]["BASE"]
        if "contexts" in target:
            assert target["contexts"] == {base: f"target:{base}"} and base in targets
            assert set(target["platforms"]) == set(targets[base]["platforms"]), name
        else:
            assert base.endswith(f"@{DIGEST}"), name


def test_images_without_a_registry_become_archives() -> None:
    local = Release(RELEASE, "abc", MADE.created)
    found = bake_definition(local, dict.fromkeys(base_images(), DIGEST))["target"]
    assert found["operator"]["output"] == ["type=oci,dest=images/operator.tar"]
    assert found["operator"]["tags"] == [f"swe-rl/operator:{RELEASE}"]


def test_images_platforms_and_mirror_may_be_chosen() -> None:
    words = ["--images", "operator,trainer", "--platforms", "linux/amd64", "--mirror", "mirror.example.org/hub/"]
    selection = parse_options(words).selection
    assert base_images(selection) == {"debian"}
    found = bake_definition(MADE, {"debian": DIGEST}, selection)
    assert found["group"]["default"]["targets"] == ["operator", "trainer"]
    assert set(found["target"]) == {"operator", "trainer", "trainer-deps"}
    assert {tuple(target["platforms"]) for target in found["target"].values()} == {("linux/amd64",)}
    operator = found["target"]["operator"]
    assert operator["args"]["BASE"] == f"mirror.example.org/hub/library/debian:trixie-slim@{DIGEST}"
    assert operator["labels"]["org.opencontainers.image.base.name"] == "docker.io/library/debian:trixie-slim"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--images", "operators"], "no image 'operators'; --images takes operator, "),
        (["--images", "trainer", "--platforms", "linux/arm64"], "trainer exists for linux/amd64 alone"),
    ],
)
def test_choice_without_images_is_a_usage_error(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(words)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_contexts_hold_what_dockerfiles_copy(targets: dict[str, Any], contexts: Path) -> None:
    for name, target in targets.items():
        folder = contexts / target["context"]
        dockerfile = (folder / "Dockerfile").read_text()
        assert dockerfile.splitlines()[1].startswith("ARG BASE") or "\nARG BASE" in dockerfile, name
        copied = [word for words in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE) for word in words.split()[:-1]]
        assert [source for source in copied if not (folder / source).exists()] == []


def test_contexts_hold_no_leftovers(contexts: Path) -> None:
    assert [path for path in contexts.rglob("*") if path.name == "__pycache__" or path.suffix == ".pyc"] == []


def test_gpu_image_holds_no_test_tools() -> None:
    pins = (ROOT / "requirements/trainer-gpu.txt").read_text()
    assert re.findall(r"^(pytest|mypy)\S*==", pins, re.MULTILINE) == []


@pytest.mark.parametrize("name", ["trainer-cpu", "trainer-gpu"])
def test_trainer_images_hold_the_packages_of_object_storage(name: str) -> None:
    pins = (ROOT / f"requirements/{name}.txt").read_text()
    assert re.findall(r"^(gcsfs|s3fs)==", pins, re.MULTILINE) == ["gcsfs", "s3fs"]


@pytest.mark.parametrize("name", ["operator", "trainer-cpu", "trainer-gpu"])
def test_every_package_of_an_image_has_hashes(name: str) -> None:
    lines = (ROOT / f"requirements/{name}.txt").read_text().replace("\\\n", " ").splitlines()
    assert lines and [line for line in lines if not re.match(r"\S+==\S+ +--hash=sha256:[0-9a-f]{64}", line)] == []
