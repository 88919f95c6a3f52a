"""Bad input becomes a condition that says what to do, and no resources are taken."""

from __future__ import annotations

import pytest

from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace


def _name(job: Body) -> str:
    return str(job["metadata"]["name"])


def _no_cluster(kube: JobNamespace) -> None:
    assert kube.names("rayclusters") == []
    assert [pod for pod in kube.names("pods") if "preflight" not in pod] == []


def test_all_missing_objects_are_reported_together(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["tasks"] = {"source": {"configMap": {"name": "no-tasks"}}}
    job["spec"]["evaluation"] = {"source": {"persistentVolumeClaim": {"claimName": "no-claim"}}}
    job["spec"]["sandbox"] = {"runtimeClassName": "no-runtime"}
    kube.apply(job)
    found = kube.until_condition(_name(job), "Validated", "ConfigMapMissing")
    assert found["status"] == "False"
    for message in ("'no-tasks' named by spec.tasks.source", "'no-claim'", "'no-runtime'", "create it there"):
        assert message in found["message"]
    assert kube.status(_name(job))["phase"] == "Blocked"
    assert [p for p in kube.names("pods") if _name(job) in p] == []
    _no_cluster(kube)
    assert "ConfigMapMissing" in kube.kubectl("describe", "swerl", _name(job))


def test_job_continues_when_a_missing_object_appears(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["tasks"] = {"source": {"configMap": {"name": "late-tasks"}}}
    job["spec"]["trainer"]["image"] = f"{IMAGE}-not-there"
    kube.apply(job)
    kube.until_condition(_name(job), "Validated", "ConfigMapMissing")
    metadata = {"name": "late-tasks", "namespace": kube.namespace}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    assert kube.until_condition(_name(job), "Validated", "Valid")["status"] == "True"


def test_impossible_resources_create_no_cluster(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["trainer"] |= {"gpus": 8}
    job["spec"]["rollout"] |= {"gpusPerEngine": 8}
    kube.apply(job)
    found = kube.until_condition(_name(job), "Validated", "InsufficientResources")
    assert "8 nvidia.com/gpu" in found["message"] and "add nodes" in found["message"]
    _no_cluster(kube)


@pytest.mark.parametrize("kind", ["sandbox", "grading"])
def test_episodes_that_fit_no_node_create_no_cluster(
    kube: JobNamespace, operator: Operator, job: Body, kind: str
) -> None:
    job["spec"][kind] = {"resources": {"requests": {"memory": "9Ti"}, "limits": {"memory": "9Ti"}}}
    kube.apply(job)
    found = kube.until_condition(_name(job), "Validated", "InsufficientResources")
    for message in (f"not even one {kind} Pod with ", "9216.0 GiB memory", f"lower spec.{kind}.resources or add nodes"):
        assert message in found["message"]
    assert kube.status(_name(job))["phase"] == "Blocked"
    _no_cluster(kube)


def test_missing_image_creates_no_cluster(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["trainer"]["image"] = f"{IMAGE}-missing"
    kube.apply(job)
    found = kube.until_condition(_name(job), "ImagesReady", "ImagePullFailed", 120)
    assert f"{IMAGE}-missing" in found["message"] and "push the image" in found["message"]
    _no_cluster(kube)


def test_missing_secret_creates_no_cluster(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["trainer"] |= {"image": IMAGE, "envFromSecrets": ["no-such-secret"]}
    kube.apply(job)
    found = kube.until_condition(_name(job), "ImagesReady", "ContainerStartFailed", 120)
    assert '"no-such-secret" not found' in found["message"]
    _no_cluster(kube)


def test_missing_path_in_an_image_is_reported(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["tasks"]["source"] = {"image": {"reference": IMAGE, "path": "/no/such/folder"}}
    kube.apply(job)
    found = kube.until_condition(_name(job), "ImagesReady", "SourceMissing", 120)
    assert "path /no/such/folder does not exist" in found["message"]
    _no_cluster(kube)


def test_account_of_another_owner_is_not_used(kube: JobNamespace, operator: Operator, job: Body) -> None:
    account = f"{_name(job)}-driver"
    kube.kubectl("create", "serviceaccount", account)
    kube.apply(job)
    found = kube.until_condition(_name(job), "Validated", "ForeignObject")
    assert f"ServiceAccount '{account}' in namespace" in found["message"] and "delete or rename it" in found["message"]
    assert kube.names("rolebindings") == [name for name in kube.names("rolebindings") if account not in name]
    _no_cluster(kube)
    kube.kubectl("delete", "serviceaccount", account)
    assert kube.until_condition(_name(job), "Validated", "Valid")["status"] == "True"


def test_operator_serves_health_and_metrics(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["tasks"] = {"source": {"configMap": {"name": "no-tasks"}}}
    kube.apply(job)
    kube.until_condition(_name(job), "Validated", "ConfigMapMissing")
    assert 'swerl_operator_jobs{phase="Blocked"}' in operator.metrics()
    assert operator.health("livez") == "ok\n"
