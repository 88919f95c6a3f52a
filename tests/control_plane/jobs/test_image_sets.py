"""SweImageSets bring real images to the real node, and a job waits for them."""

from __future__ import annotations

from typing import Any

from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace

OTHER = IMAGE.replace("sandbox-base", "operator")
KIND = "sweimg"


def declare(world: JobNamespace, name: str, **spec: Any) -> None:
    body = {"apiVersion": "swerl.dev/v1alpha1", "kind": "SweImageSet", "metadata": {"name": name}, "spec": spec}
    world.apply(body | {"metadata": {"name": name, "namespace": world.namespace}})


def test_every_image_is_pulled_on_every_node_and_the_pods_are_deleted(world: JobNamespace, operator: Operator) -> None:
    prefix = {"prefix": "example.test/", "replacement": f"{IMAGE.partition('/')[0]}/"}
    rewritten = f"example.test/{IMAGE.partition('/')[2]}"
    declare(world, "two", images=[rewritten, OTHER, IMAGE], registryRewrite=[prefix])
    world.until_condition("two", "Ready", "AllPresent", kind=KIND)
    status = world.status("two", KIND)
    assert (status["images"], status["missing"], status["failed"]) == (2, 0, 0)
    assert [node["present"] for node in status["perNode"]] == [2] * status["nodes"]
    world.until(lambda: [pod for pod in world.names("pods") if "sweimg-two" in pod], lambda pods: pods == [])


def test_an_image_that_cannot_be_pulled_is_reported_and_the_others_are_pulled(
    world: JobNamespace, operator: Operator
) -> None:
    declare(world, "half", images=[f"{IMAGE}-absent", OTHER], retries=0)
    found = world.until_condition("half", "Ready", "PullFailed", kind=KIND)
    assert f"{IMAGE}-absent" in found["message"]
    world.until(lambda: world.status("half", KIND), lambda s: (s["present"], s["failed"]) == (s["nodes"], s["nodes"]))
    declare(world, "half", images=[OTHER], retries=0)
    world.until_condition("half", "Ready", "AllPresent", kind=KIND)


def test_images_from_a_list_are_pulled(world: JobNamespace, operator: Operator) -> None:
    declare(world, "listed", imagesFrom={"configMap": "later"})
    assert "'later'" in world.until_condition("listed", "Ready", "ListMissing", kind=KIND)["message"]
    metadata = {"name": "later", "namespace": world.namespace}
    lines = f"# the bundled one\n\n{IMAGE}\n"
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"images.txt": lines}})
    world.until_condition("listed", "Ready", "AllPresent", kind=KIND)


def test_a_job_creates_no_cluster_before_its_images_are_present(
    world: JobNamespace, operator: Operator, job: Body
) -> None:
    job["spec"].setdefault("sandbox", {})["imageSet"] = "coming"
    world.apply(job)
    name = str(job["metadata"]["name"])
    assert "'coming'" in world.until_condition(name, "ImagesReady", "ImageSetMissing")["message"]
    declare(world, "coming", images=[f"{IMAGE}-absent"])
    world.until_condition(name, "ImagesReady", "WaitingForImages")
    assert world.names("rayclusters") == []
    declare(world, "coming", images=[IMAGE])
    waiting = ("WaitingForImages", "ImageSetMissing")
    world.until(lambda: world.condition(name, "ImagesReady"), lambda c: c.get("reason") not in waiting)
