"""The images of a release as a file for `docker buildx bake`.

Guarantees: every released image has the release's version as its tag, labels, an SBOM and a provenance; it builds on a
base image named by digest, from the same Dockerfile and files as `python3 -m images`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from images.__main__ import select_images
from images.catalogue import BASES, Image
from images.engine import write_context

AMD64, ARM64 = "linux/amd64", "linux/arm64"
LABEL = "org.opencontainers.image"  # namespace of the OCI's annotations
PREFIX = "swe-rl/"
DOCKER_IO = "docker.io"  # registry of the base images


@dataclass(frozen=True)
class ReleasedImage:
    """An image that users pull: its description and the platforms that its packages exist for."""

    description: str
    platforms: tuple[str, ...]


RELEASED = {
    "operator": ReleasedImage("Operator of SweRLJobs, SweEvals, SweSandboxes and SweImageSets", (AMD64, ARM64)),
    "sandbox-base": ReleasedImage("Base of task images: Debian with git, Python and pytest", (AMD64, ARM64)),
    "trainer": ReleasedImage("Trainer, engines and console, for CPUs", (AMD64,)),
    "trainer-gpu": ReleasedImage("Trainer and engines, for NVIDIA GPUs", (AMD64,)),
}


@dataclass(frozen=True)
class Release:
    """What every part of a release has in common."""

    version: str
    revision: str  # commit
    created: str  # date of the commit, RFC 3339
    registry: str = ""  # host and path that images are pushed to; empty: they become OCI archives

    @property
    def epoch(self) -> str:
        """`created` in seconds, as SOURCE_DATE_EPOCH has it."""
        return str(int(datetime.fromisoformat(self.created).timestamp()))

    def reference(self, name: str) -> str:
        """The reference of a released image."""
        return "/".join(filter(None, (self.registry, f"{PREFIX}{name}:{self.version}")))


@dataclass(frozen=True)
class Selection:
    """Which images of a release are built, and on what."""

    images: tuple[str, ...] = tuple(RELEASED)
    platforms: tuple[str, ...] = ()  # empty: all that an image exists for
    mirror: str = DOCKER_IO  # where bases are read: a registry, and a path if it has one

    def base(self, name: str) -> str:
        """Where the base `name` of BASES is read."""
        return f"{self.mirror}/{BASES[name].removeprefix(f'{DOCKER_IO}/')}"

    def platforms_of(self, name: str) -> list[str]:
        """Platforms of an image; one that is only built upon has those of the image on it."""
        found = RELEASED[name.removesuffix("-deps")].platforms
        return [platform for platform in found if not self.platforms or platform in self.platforms]


EVERYTHING = Selection()


def bake_definition(release: Release, digests: Mapping[str, str], selection: Selection = EVERYTHING) -> dict[str, Any]:
    """The bake file; `digests` has one digest per base image. Contexts are the folders of `write_contexts`."""
    images = select_images(selection.images)
    targets = {_short(image.name): _target(image, release, digests, selection) for image in images}
    return {"group": {"default": {"targets": list(selection.images)}}, "target": targets}


def write_contexts(folder: Path, selection: Selection = EVERYTHING) -> None:
    """A build context with its Dockerfile for each image, in `contexts/` of `folder`."""
    for image in select_images(selection.images):
        context = folder / _context(image)
        shutil.rmtree(context, ignore_errors=True)
        context.mkdir(parents=True)
        write_context(image, context)
        shutil.copy2(image.dockerfile, context / "Dockerfile")


def base_images(selection: Selection = EVERYTHING) -> set[str]:
    """The names in BASES of the base images."""
    return {image.parent or "debian" for image in select_images(selection.images)} & BASES.keys()


def _short(name: str) -> str:
    return name.removeprefix(PREFIX)


def _context(image: Image) -> str:
    return f"contexts/{_short(image.name)}"


def _target(image: Image, release: Release, digests: Mapping[str, str], selection: Selection) -> dict[str, Any]:
    name, parent = _short(image.name), image.parent or "debian"
    target: dict[str, Any] = {"context": _context(image), "platforms": selection.platforms_of(name)}
    if parent in BASES:
        target["args"] = {"BASE": f"{selection.base(parent)}@{digests[parent]}"}
    else:
        target |= {"args": {"BASE": _short(parent)}, "contexts": {_short(parent): f"target:{_short(parent)}"}}
    if name in RELEASED:
        base = _base(image)
        target |= {
            "tags": [release.reference(name)],
            "labels": _labels(name, release)
            | {f"{LABEL}.base.name": BASES[base], f"{LABEL}.base.digest": digests[base]},
            "attest": ["type=sbom", "type=provenance,mode=max"],
            "output": ["type=registry" if release.registry else f"type=oci,dest=images/{name}.tar"],
        }
    return target


def _base(image: Image) -> str:
    """The name in BASES of the base image below `image` and its parents."""
    parent = image.parent or "debian"
    if parent in BASES:
        return parent
    return _base(next(other for other in select_images(RELEASED) if other.name == parent))


def _labels(name: str, release: Release) -> dict[str, str]:
    return {
        f"{LABEL}.title": f"{PREFIX}{name}",
        f"{LABEL}.description": RELEASED[name].description,
        f"{LABEL}.version": release.version,
        f"{LABEL}.revision": release.revision,
        f"{LABEL}.created": release.created,
        f"{LABEL}.licenses": "Apache-2.0",
    }
