"""A node is drained under a Ray cluster: the job says what happens to its Pods, and goes on when there is room."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace

pytestmark = pytest.mark.alone  # nothing of others can start on the drained node
FINALIZER = '{"metadata":{"finalizers":["example.com/looked-at"]}}'  # the Pod stays until it was looked at


@pytest.fixture
def schedulable(kube: JobNamespace) -> Iterator[None]:
    """The nodes take Pods again after the test."""
    yield
    kube.kubectl("uncordon", "--selector=kubernetes.io/os")


def ray_pods(kube: JobNamespace, name: str) -> dict[str, Body]:
    """The job's Ray Pods by UID."""
    found = json.loads(kube.kubectl("get", "pods", f"--selector=swerl.dev/job={name},ray.io/node-type", "-o", "json"))
    return {pod["metadata"]["uid"]: pod for pod in found["items"]}


def test_drained_node_is_named_and_its_pods_come_back(
    kube: JobNamespace, operator: Operator, job: Body, schedulable: None
) -> None:
    name = job["metadata"]["name"]
    kube.apply(job)
    before = kube.until(lambda: ray_pods(kube, name), lambda pods: len(pods) > 1, 120)
    for pod in before.values():
        kube.kubectl("patch", "pod", pod["metadata"]["name"], "--type=merge", "-p", FINALIZER)
    selector = f"--pod-selector=swerl.dev/job={name}"
    drain = ("drain", "--selector=kubernetes.io/os", selector, "--delete-emptydir-data", "--force", "--timeout=1s")
    kube.kubectl(*drain, check=False)  # it waits for Pods that their finalizers keep
    ready = kube.until(
        lambda: kube.condition(name, "ClusterReady"), lambda c: "EvictionByEvictionAPI" in c.get("message", ""), 60
    )
    assert ready["status"] == "False" and "leaves its node: EvictionByEvictionAPI" in ready["message"]
    for pod in before.values():
        kube.kubectl("patch", "pod", pod["metadata"]["name"], "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    waiting = kube.until_condition(name, "ClusterReady", "PodUnschedulable", 60)
    assert "unschedulable" in waiting["message"] and kube.status(name)["phase"] == "Blocked"
    assert "PodUnschedulable" in kube.kubectl("describe", "swerl", name)
    kube.kubectl("uncordon", "--selector=kubernetes.io/os")
    after = kube.until(
        lambda: ray_pods(kube, name),
        lambda pods: (
            len(pods) == len(before)
            and all("nodeName" in pod["spec"] for pod in pods.values())
            and not before.keys() & pods.keys()
        ),
        120,
    )
    assert not before.keys() & after.keys()
    status = kube.until(lambda: kube.status(name), lambda found: found["phase"] != "Blocked", 60)
    assert status["attempt"] == 1 and "failures" not in status
