"""The trainer image of a new job is that of the release whose operator the cluster runs."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent import RELEASE
from swerl_agent.jobs.installed import installed_release, release_of
from swerl_kube import Forbidden

from .api_server import api

DIGEST = f"sha256:{'0' * 64}"


def deployment(*images: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": image} for image in images]
    return {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": containers}}}}


@pytest.mark.parametrize(
    ("image", "trainer"),
    [
        ("registry.example.org:5000/swe-rl/operator:0.9.0", "registry.example.org:5000/swe-rl/trainer-gpu:0.9.0"),
        ("example.org/a/b/swe-rl/operator:latest", "example.org/a/b/swe-rl/trainer-gpu:latest"),
        (f"example.org/swe-rl/operator@{DIGEST}", f"example.org/swe-rl/trainer-gpu:{RELEASE}"),
        (f"example.org/swe-rl/operator:0.9.0@{DIGEST}", "example.org/swe-rl/trainer-gpu:0.9.0"),
        ("example.org/swe-rl/trainer:0.9.0", "example.org/swe-rl/trainer-gpu:0.9.0"),
        ("swe-rl/operator:0.9.0", "swe-rl/trainer-gpu:0.9.0"),
    ],
)
def test_trainer_is_beside_the_operator(image: str, trainer: str) -> None:
    found = release_of([deployment("example.org/proxy:1", image)])
    assert found is not None and found.trainer(8) == trainer
    assert found.trainer(0) == trainer.replace("trainer-gpu", "trainer")


@pytest.mark.parametrize("image", ["example.org/ours/operator:1", "example.org/swe-rl/operators:1", "operator"])
def test_operator_of_another_name_gives_no_registry(image: str) -> None:
    assert release_of([deployment(image)]) is None


async def test_deployments_of_the_cluster_are_read() -> None:
    async with api({"deployments": [deployment("example.org/swe-rl/operator:0.9.0")]}) as client:
        found = await installed_release(client)
        assert found is not None and found.registry == "example.org"
    async with api({"deployments": []}) as client:
        assert await installed_release(client) is None
    async with api({}) as client:
        with pytest.raises(Forbidden):
            await installed_release(client)
