"""SweImageSets bring real images to the real node, and a job waits for them."""

from __future__ import annotations

from typing import Any

from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace

OTHER = IMAGE.replace("sandbox-base", "operator")
KIND = "sweimg"


def declare(kube: JobNamespace, name: str, **spec: Any) -> None:
    body = {"apiVersion": "swerl.dev/v1alpha1", "kind": "SweImageSet", "metadata": {"name": name}, "spec": spec}
    kube.apply(body | {"metadata": {"name": name, "namespace": kube.namespace}})


def test_every_image_is_pulled_on_every_node_and_the_pods_are_deleted(kube: JobNamespace, operator: Operator) -> None:
    prefix = {"prefix": "example.test/", "replacement": f"{IMAGE.partition('/')[0]}/"}
    rewritten = f"example.test/{IMAGE.partition('/')[2]}"
    declare(kube, "two", images=[rewritten, OTHER, IMAGE], registryRewrite=[prefix])
    kube.until_condition("two", "Ready", "AllPresent", kind=KIND)
    status = kube.status("two", KIND)
    assert (status["images"], status["missing"], status["failed"]) == (2, 0, 0)
    assert [node["present"] for node in status["perNode"]] == [2] * status["nodes"]
    kube.until(lambda: [pod for pod in kube.names("pods") if "sweimg-two" in pod], lambda pods: pods == [])


def test_image_that_cannot_be_pulled_is_reported_and_the_others_are_pulled(
    kube: JobNamespace, operator: Operator
) -> None:
    declare(kube, "half", images=[f"{IMAGE}-absent", OTHER], retries=0)
    found = kube.until_condition("half", "Ready", "PullFailed", kind=KIND)
    assert f"{IMAGE}-absent" in found["message"]
    kube.until(lambda: kube.status("half", KIND), lambda s: (s["present"], s["failed"]) == (s["nodes"], s["nodes"]))
    declare(kube, "half", images=[OTHER], retries=0)
    kube.until_condition("half", "Ready", "AllPresent", kind=KIND)


def test_images_from_a_list_are_pulled(kube: JobNamespace, operator: Operator) -> None:
    declare(kube, "listed", imagesFrom={"configMap": "later"})
    assert "'later'" in kube.until_condition("listed", "Ready", "ListMissing", kind=KIND)["message"]
    metadata = {"name": "later", "namespace": kube.namespace}
    lines = f"# the bundled one\n\n{IMAGE}\n"
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"images.txt": lines}})
    kube.until_condition("listed", "Ready", "AllPresent", kind=KIND)


def test_job_creates_no_cluster_before_its_images_are_present(
    kube: JobNamespace, operator: Operator, job: Body
) -> None:
    job["spec"].setdefault("sandbox", {})["imageSet"] = "coming"
    kube.apply(job)
    name = str(job["metadata"]["name"])
    assert "'coming'" in kube.until_condition(name, "ImagesReady", "ImageSetMissing")["message"]
    declare(kube, "coming", images=[f"{IMAGE}-absent"])
    kube.until_condition(name, "ImagesReady", "WaitingForImages")
    assert kube.names("rayclusters") == []
    declare(kube, "coming", images=[IMAGE])
    waiting = ("WaitingForImages", "ImageSetMissing")
    kube.until(lambda: kube.condition(name, "ImagesReady"), lambda c: c.get("reason") not in waiting)
