"""From preflight to RayCluster, through suspension, to deletion; the image has no Ray, so no driver ever runs."""

from __future__ import annotations

import json

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace


def _until_cluster(world: JobNamespace, name: str, cluster: str) -> None:
    world.until(lambda: world.status(name).get("rayCluster"), lambda seen: seen == cluster, 150)


def test_a_job_creates_one_cluster_is_suspended_and_resumed(world: JobNamespace, operator: Operator, job: Body) -> None:
    name = job["metadata"]["name"]
    world.apply(job)
    world.until_condition(name, "ImagesReady", "ImagesPulled", 120)
    world.until(lambda: world.names("rayclusters"), lambda found: found == [f"raycluster.ray.io/{name}-1"])
    cluster = world.until(
        lambda: json.loads(world.kubectl("get", "raycluster", f"{name}-1", "-o", "json")), lambda c: "status" in c, 60
    )
    assert cluster["metadata"]["ownerReferences"][0]["kind"] == "SweRLJob"
    file = json.loads(world.kubectl("get", "configmap", f"{name}-1", "-o", r"jsonpath={.data.job\.json}"))
    assert (file["attempt"], file["lease"]) == (1, f"{name}-1")
    assert f"serviceaccount/{name}-driver" in world.names("serviceaccounts")

    world.kubectl("patch", "swerl", name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    world.until_condition(name, "Suspended", "Suspended")
    world.until(lambda: world.names("rayclusters,pods"), lambda found: found == [])
    world.kubectl("patch", "swerl", name, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    world.until(lambda: world.names("rayclusters"), lambda found: found == [f"raycluster.ray.io/{name}-2"], 120)
    assert world.status(name)["attempt"] == 2 and "failures" not in world.status(name)

    world.kubectl("delete", "swerl", name, "--wait=false")
    mine = "rayclusters,pods,rolebindings,configmaps,serviceaccounts,jobs"
    world.until(lambda: [o for o in world.names(mine) if name in o], lambda found: found == [], 60)


def test_a_deleted_cluster_fails_the_attempt_until_retries_are_exhausted(
    world: JobNamespace, operator: Operator, job: Body
) -> None:
    name = job["metadata"]["name"]
    job["spec"]["retries"] = 1
    world.apply(job)
    for cluster in (f"{name}-1", f"{name}-2"):
        _until_cluster(world, name, cluster)
        world.kubectl("delete", "raycluster", cluster)
    found = world.until_condition(name, "Failed", "RetriesExhausted", 60)
    assert "attempt 2: RayCluster" in found["message"] and "spec.retries is 1" in found["message"]
    world.until(lambda: world.names("rayclusters,pods"), lambda left: left == [], 60)


def test_a_restarted_operator_creates_nothing_twice(world: JobNamespace, operator: Operator, job: Body) -> None:
    name = job["metadata"]["name"]
    world.apply(job)
    _until_cluster(world, name, f"{name}-1")
    uid = world.kubectl("get", "raycluster", f"{name}-1", "-o", "jsonpath={.metadata.uid}")
    operator.kill()
    operator.start()
    operator.until_leading()
    world.kubectl("annotate", "swerl", name, "look=again")
    world.until(lambda: world.status(name).get("phase"), lambda phase: phase in ("Starting", "Blocked"))
    assert world.kubectl("get", "raycluster", f"{name}-1", "-o", "jsonpath={.metadata.uid}") == uid
    assert world.status(name)["attempt"] == 1
    world.kubectl("delete", "swerl", name)
