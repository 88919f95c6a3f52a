"""CRD and operator of two versions: an upgrade or a rollback stops no job."""

from __future__ import annotations

import json

from tests.conftest import one_at_a_time
from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace

CRD = ("crd", "swerljobs.swerl.dev")
SPEC = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"


def _change_crd(kube: JobNamespace, operation: str, field: str, **value: object) -> None:
    patch = [{"op": operation, "path": f"{SPEC}/{field}", **value}]
    kube.kubectl("patch", *CRD, "--type=json", "-p", json.dumps(patch))


def test_field_of_a_newer_crd_is_ignored_and_named(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["trainer"]["image"] = f"{IMAGE}-not-there"
    name = job["metadata"]["name"]
    with one_at_a_time():
        _change_crd(kube, "add", "algorithm/properties/ofTheNextVersion", value={"type": "string"})
        try:
            job["spec"]["algorithm"] = {"ofTheNextVersion": "new"}
            kube.apply(job)
            found = kube.until_condition(name, "Validated", "Valid")
        finally:
            _change_crd(kube, "remove", "algorithm/properties/ofTheNextVersion")
    assert found["status"] == "True"
    assert "ignores spec.algorithm.ofTheNextVersion; upgrade the chart" in found["message"]


def test_field_that_an_older_crd_lacks_has_its_default(kube: JobNamespace, operator: Operator, job: Body) -> None:
    job["spec"]["trainer"]["image"] = f"{IMAGE}-not-there"
    name = job["metadata"]["name"]
    with one_at_a_time():
        schema = kube.kubectl("get", *CRD, "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema}")
        field = json.loads(schema)["properties"]["spec"]["properties"]["logFormat"]
        _change_crd(kube, "remove", "logFormat")
        try:
            kube.apply(job)
            found = kube.until_condition(name, "Validated", "Valid")
        finally:
            _change_crd(kube, "add", "logFormat", value=field)
    assert (found["status"], found["message"]) == ("True", "")
