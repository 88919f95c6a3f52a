"""Objects and images that a job names, by the field that names them."""

from __future__ import annotations

from swerl_agent.jobs.needs import named_images, named_objects
from swerl_agent.jobs.validation import REMEDIES

SPEC = {
    "trainer": {
        "image": "trainer:1",
        "podTemplate": {
            "priorityClassName": "training",
            "volumes": [
                {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
                {"name": "keys", "secret": {"secretName": "keys"}},
            ],
            "initContainers": [{"name": "tune", "image": "tune:1"}],
        },
    },
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}},
}


def test_objects_in_lists_are_named_with_their_place() -> None:
    found = {need.field: (need.kind, need.name, need.namespaced) for need in named_objects(SPEC)}
    volumes = "spec.trainer.podTemplate.volumes"
    assert found == {
        "spec.trainer.podTemplate.priorityClassName": ("PriorityClass", "training", False),
        f"{volumes}[0].persistentVolumeClaim.claimName": ("PersistentVolumeClaim", "cache", True),
        f"{volumes}[1].secret.secretName": ("Secret", "keys", True),
        "spec.checkpoint.volume.persistentVolumeClaim.claimName": ("PersistentVolumeClaim", "runs", True),
    }


def test_images_of_init_containers_are_looked_for() -> None:
    place = "spec.trainer.podTemplate.initContainers[0].image"
    assert named_images(SPEC) == {"spec.trainer.image": "trainer:1", place: "tune:1"}


def test_every_kind_has_a_remedy() -> None:
    kinds = {need.kind for need in named_objects(SPEC | {"queueName": "q", "sandbox": {"imageSet": "i"}})}
    assert kinds <= REMEDIES.keys() and {"PriorityClass", "LocalQueue"} <= kinds
