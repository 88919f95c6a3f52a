"""The driver waits for the Pods of its attempt, and says which are missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from swerl_api import SweRLJobSpec
from swerl_trainer.joining import ExpectedPods, PodJoining, PodsMissing, expected_pods

SPEC: dict[str, Any] = {
    "model": {"source": {"configMap": {"name": "model"}}},
    "tasks": {"source": {"configMap": {"name": "tasks"}}},
    "trainer": {"image": "t", "replicas": 2, "gpus": 4, "tensorParallel": 4},
    "rollout": {"engines": 4, "gpusPerEngine": 2},
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}},
}
EXPECTED = [ExpectedPods("trainer", "train", 2, 4), ExpectedPods("engine", "engine", 4)]


class Ray:
    """Nodes that join and leave."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"Alive": True, "Resources": {"CPU": 8.0, "rollout": 1.0}}]

    def add(self, alive: bool = True, **resources: float) -> None:
        self.nodes.append({"Alive": alive, "Resources": resources})

    def read(self) -> list[dict[str, Any]]:
        return self.nodes


@pytest.fixture
def cluster() -> Ray:
    return Ray()


def spec(**changes: Any) -> SweRLJobSpec:
    return SweRLJobSpec.model_validate(SPEC | changes)


def test_pods_that_a_job_needs() -> None:
    judge = {"model": {"configMap": {"name": "judge"}}, "engines": 3}
    assert expected_pods(spec(), generates=True) == EXPECTED
    assert expected_pods(spec(judge=judge), generates=True)[2] == ExpectedPods("judge", "judge", 3)
    assert expected_pods(spec(), generates=False) == EXPECTED[:1], "supervised training has no engines"
    on_cpu = spec(trainer={"image": "t", "replicas": 2, "cpuRanks": 3}, rollout={})
    assert expected_pods(on_cpu, generates=False) == [ExpectedPods("trainer", "train", 2, 3)]
    colocated = expected_pods(spec(colocate=True), generates=True)
    assert [each.role for each in colocated] == ["trainer"], "its engines are in trainer Pods"


async def test_wait_ends_when_all_have_joined(cluster: Ray) -> None:
    pods = PodJoining(EXPECTED, 60, cluster.read, poll=0.01)
    watch = asyncio.create_task(pods.watch())
    for number in range(4):
        cluster.add(engine=1.0)
        if number % 2:
            cluster.add(train=4.0)
        await asyncio.sleep(0.05)
    await asyncio.wait_for(watch, 5)
    assert pods.missing() == ""


async def test_engine_starts_as_soon_as_its_pod_has_joined(cluster: Ray) -> None:
    pods = PodJoining(EXPECTED, 60, cluster.read, poll=0.01)
    watch = asyncio.create_task(pods.watch())
    first, second = (asyncio.create_task(pods.joined("engine", number)) for number in (1, 2))
    cluster.add(engine=1.0)
    await asyncio.wait_for(first, 5)
    assert not second.done()
    cluster.add(engine=1.0)
    await asyncio.wait_for(second, 5)
    watch.cancel()


async def test_deadline_names_roles_and_numbers_of_missing_pods(cluster: Ray) -> None:
    cluster.add(train=4.0)
    cluster.add(alive=False, train=4.0)
    cluster.add(engine=1.0)
    with pytest.raises(PodsMissing) as caught:
        await PodJoining(EXPECTED, 0.1, cluster.read, poll=0.01).watch()
    text = str(caught.value)
    assert "1 of 2 trainer Pods and 3 of 4 engine Pods have not joined Ray" in text
    assert "in 0 s (trainer.joinTimeoutSeconds); raise it" in text


async def test_pod_that_is_lost_later_does_not_stop_a_replacement(cluster: Ray) -> None:
    cluster.add(engine=1.0)
    pods = PodJoining([ExpectedPods("engine", "engine", 1)], 60, cluster.read, poll=0.01)
    await pods.watch()
    cluster.nodes.clear()
    assert await asyncio.wait_for(pods.joined("engine", 1), 1) is None
