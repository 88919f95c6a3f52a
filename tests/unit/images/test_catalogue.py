"""Which images are built, and when."""

from __future__ import annotations

from swerl_agent import RELEASE

from images.__main__ import select_images
from images.catalogue import BASES, project_images


def names(*requested: str) -> list[str]:
    return [image.name.removeprefix("swe-rl/") for image in select_images(requested)]


def test_gpu_image_is_built_only_when_it_is_named() -> None:
    assert "trainer" in names()
    assert not [name for name in names() if "gpu" in name]
    assert names("trainer-gpu") == ["trainer-gpu-deps", "trainer-gpu"]


def test_both_trainer_images_hold_the_same_code() -> None:
    by_name = {image.name: image for image in project_images()}
    cpu, gpu = by_name["swe-rl/trainer"], by_name["swe-rl/trainer-gpu"]
    assert (cpu.dockerfile, cpu.inputs) == (gpu.dockerfile, gpu.inputs)


def test_every_image_builds_on_an_earlier_one() -> None:
    names = set(BASES)
    for image in project_images():
        assert image.parent in names, image.name
        names.add(image.name)


def test_images_have_the_release_as_a_tag() -> None:
    assert {image.tags for image in project_images()} == {(RELEASE,)}
