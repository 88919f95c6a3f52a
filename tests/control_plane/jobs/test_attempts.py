"""From preflight to RayCluster, through suspension, to deletion; the image has no Ray, so no driver ever runs."""

from __future__ import annotations

import json

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace


def _until_cluster(kube: JobNamespace, name: str, cluster: str) -> None:
    kube.until(lambda: kube.status(name).get("rayCluster"), lambda name_of_cluster: name_of_cluster == cluster, 300)


def test_job_creates_one_cluster_is_suspended_and_resumed(kube: JobNamespace, operator: Operator, job: Body) -> None:
    name = job["metadata"]["name"]
    kube.apply(job)
    kube.until_condition(name, "ImagesReady", "ImagesPulled", 120)
    kube.until(lambda: kube.names("rayclusters"), lambda found: found == [f"raycluster.ray.io/{name}-1"])
    cluster = kube.until(
        lambda: json.loads(kube.kubectl("get", "raycluster", f"{name}-1", "-o", "json")),
        lambda c: "status" in c,
        60,
    )
    assert cluster["metadata"]["ownerReferences"][0]["kind"] == "SweRLJob"
    file = json.loads(kube.kubectl("get", "configmap", f"{name}-1", "-o", r"jsonpath={.data.job\.json}"))
    assert (file["attempt"], file["lease"]) == (1, f"{name}-1")
    assert f"serviceaccount/{name}-driver" in kube.names("serviceaccounts")
    assert f"networkpolicy.networking.k8s.io/{name}-ray" in kube.names("networkpolicies")

    kube.kubectl("patch", "swerl", name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    kube.until_condition(name, "Suspended", "Suspended")
    kube.until(lambda: kube.names("rayclusters,pods"), lambda found: found == [])
    kube.kubectl("patch", "swerl", name, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    kube.until(lambda: kube.names("rayclusters"), lambda found: found == [f"raycluster.ray.io/{name}-2"], 120)
    assert kube.status(name)["attempt"] == 2 and "failures" not in kube.status(name)

    kube.kubectl("delete", "swerl", name, "--wait=false")
    job_kinds = "rayclusters,pods,rolebindings,configmaps,serviceaccounts,jobs,networkpolicies"
    kube.until(lambda: [o for o in kube.names(job_kinds) if name in o], lambda found: found == [], 60)


def test_deleted_cluster_fails_the_attempt_until_retries_are_exhausted(
    kube: JobNamespace, operator: Operator, job: Body
) -> None:
    name = job["metadata"]["name"]
    job["spec"]["retries"] = 1
    kube.apply(job)
    for cluster in (f"{name}-1", f"{name}-2"):
        _until_cluster(kube, name, cluster)
        kube.kubectl("delete", "raycluster", cluster)
    found = kube.until_condition(name, "Failed", "RetriesExhausted", 60)
    assert "attempt 2: RayCluster" in found["message"] and "spec.retries is 1" in found["message"]
    kube.until(lambda: kube.names("rayclusters,pods"), lambda names: names == [], 60)


def test_restarted_operator_creates_nothing_twice(kube: JobNamespace, operator: Operator, job: Body) -> None:
    name = job["metadata"]["name"]
    kube.apply(job)
    _until_cluster(kube, name, f"{name}-1")
    uid = kube.kubectl("get", "raycluster", f"{name}-1", "-o", "jsonpath={.metadata.uid}")
    operator.kill()
    operator.start()
    operator.until_leading()
    kube.kubectl("annotate", "swerl", name, "look=again")
    kube.until(lambda: kube.status(name).get("phase"), lambda phase: phase in ("Starting", "Blocked"))
    assert kube.kubectl("get", "raycluster", f"{name}-1", "-o", "jsonpath={.metadata.uid}") == uid
    assert kube.status(name)["attempt"] == 1
    kube.kubectl("delete", "swerl", name)
