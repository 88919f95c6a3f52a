"""What a user with docker, and without buildah, builds and pushes. In order: a later test builds on an earlier one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.docker.daemon import DockerDaemon

OF_CODE = 2  # layers of the operator's image: its code, and that code compiled


def pushed(docker: DockerDaemon) -> dict[str, str]:
    """References of what was pushed, by name."""
    return dict(json.loads((docker.folder / "home/images.json").read_text()))


def test_every_image_of_the_demo_reaches_the_registry(docker: DockerDaemon, checkout: Path) -> None:
    docker.images(checkout, "operator", "tasks")
    kinds = {"swe-rl/operator", "swe-rl/sandbox-base", "swe-rl/demo-data"}
    assert kinds <= pushed(docker).keys()
    assert len(pushed(docker).keys() - kinds) == 2, "one task of every split"
    for name, reference in pushed(docker).items():
        assert docker.layers(name, reference.rpartition(":")[2]) == docker.layers(name, "latest")


def test_image_in_the_registry_is_not_built_again(docker: DockerDaemon, checkout: Path) -> None:
    lines = docker.images(checkout, "operator", "tasks").splitlines()
    assert [line for line in lines if "present" not in line] == []


def test_change_of_code_makes_thin_layers_only(docker: DockerDaemon, checkout: Path) -> None:
    before = docker.layers("swe-rl/operator", "latest")
    with (checkout / "operator/swerl_operator/__main__.py").open("a") as code:
        code.write("# another line\n")
    assert "built and pushed" in docker.images(checkout, "operator")
    after = docker.layers("swe-rl/operator", "latest")
    assert before[:-OF_CODE] == after[:-OF_CODE]
    assert before[-OF_CODE] != after[-OF_CODE]


def test_other_registry_gets_images_below_a_path(docker: DockerDaemon, checkout: Path) -> None:
    docker.images(checkout, "operator", "--registry", f"{docker.elsewhere}/team")
    assert docker.layers("team/swe-rl/operator", "latest") == docker.layers("swe-rl/operator", "latest")


def test_image_that_an_index_names_is_there(docker: DockerDaemon, checkout: Path) -> None:
    tag = pushed(docker)["swe-rl/operator"].rpartition(":")[2]
    docker.put_index("swe-rl/operator", tag)
    assert "present" in docker.images(checkout, "operator")


def test_pushed_image_runs(docker: DockerDaemon) -> None:
    image = f"{docker.registry}/swe-rl/operator:latest"
    assert "Kubernetes operator" in docker.run("docker", "run", "--rm", "--pull=always", image, "--help")


def test_command_runs_in_an_image_with_the_checkout(docker: DockerDaemon, checkout: Path) -> None:
    docker.images(checkout, "sandbox-base", "--", "sh", "-c", "cat Makefile >/cache/kept")
    assert (docker.folder / "home/cache/kept").read_text() == (checkout / "Makefile").read_text()
