"""The images, what each is made of, and the content key that names it.

Guarantees: a key changes exactly when the Dockerfile, a file that goes into the image, or the parent image changes. A
tag made from it therefore never moves, and an unchanged image is never built twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEBIAN = "docker.io/library/debian:trixie-slim"
CUDA = "docker.io/nvidia/cuda:13.0.2-cudnn-devel-ubuntu24.04"
BASES = {"debian": DEBIAN, "cuda": CUDA}  # base of the project's images
IGNORED = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@dataclass(frozen=True)
class Image:
    """One image: `inputs` maps a path in the build context to the file or folder that is put there; `parent` is an
    image or one of BASES.

    An image with an `identity` is keyed by it instead of its inputs; `prepare` makes the inputs, only before a build.
    """

    name: str
    dockerfile: Path
    parent: str | None = None
    inputs: Mapping[str, Path] = field(default_factory=dict)
    needs_network: bool = False  # its Dockerfile downloads packages
    on_request: bool = False  # built only when it, or an image on it, is named
    identity: str | None = None
    tags: tuple[str, ...] = ()  # in the registry, besides the content key and `latest`
    prepare: Callable[[], object] | None = None


def _project(*paths: str) -> dict[str, Path]:
    return {path: ROOT / path for path in paths}


def project_images() -> list[Image]:
    """Every image but those of the bundled tasks, parents first; each has the release as a further tag."""
    return [replace(image, tags=(release(),)) for image in _project_images()]


def release() -> str:
    """The version of the chart, which is that of all parts."""
    found = re.search(r"^appVersion: (\S+)$", (ROOT / "charts/Chart.yaml").read_text(), re.MULTILINE)
    if not found:
        raise ValueError("charts/Chart.yaml has no appVersion")
    return found[1]


def _project_images() -> list[Image]:
    images_folder = ROOT / "images"
    code = _project("crds", "agent", "trainer")
    return [
        Image("swe-rl/sandbox-base", images_folder / "sandbox-base/Dockerfile", "debian", needs_network=True),
        Image(
            "swe-rl/operator",
            images_folder / "operator/Dockerfile",
            "debian",
            _project("requirements/operator.txt", "crds", "operator"),
            needs_network=True,
        ),
        Image(
            "swe-rl/trainer-deps",
            images_folder / "trainer/Dockerfile.deps",
            "debian",
            _project(
                "requirements/build.txt",
                "requirements/trainer-cpu.txt",
                "images/trainer/sglang-kernel-cpu",
                "images/trainer/drop_unmapped_cuda.py",
            ),
            needs_network=True,
        ),
        Image("swe-rl/trainer", images_folder / "trainer/Dockerfile", "swe-rl/trainer-deps", code),
        Image(
            "swe-rl/trainer-gpu-deps",
            images_folder / "trainer/Dockerfile.gpu",
            "cuda",
            _project(
                "requirements/build.txt",
                "requirements/trainer-gpu.txt",
                "requirements/trainer-te-build.txt",
                "requirements/trainer-te.txt",
            ),
            needs_network=True,
            on_request=True,
        ),
        Image(
            "swe-rl/trainer-gpu", images_folder / "trainer/Dockerfile", "swe-rl/trainer-gpu-deps", code, on_request=True
        ),
    ]


def list_files(path: Path) -> Iterator[Path]:
    """Files below `path` (or itself) that belong into an image, in a stable order."""
    if path.is_file() or path.is_symlink():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name not in IGNORED and not entry.name.endswith((".pyc", ".egg-info")):
            yield from list_files(entry)


def content_key(image: Image, parent_key: str) -> str:
    """First 12 hex digits of SHA-256 over the Dockerfile, every input (path, mode, bytes) and the parent's key."""
    digest = hashlib.sha256(parent_key.encode())
    digest.update(image.dockerfile.read_bytes())
    if image.identity is not None:
        digest.update(image.identity.encode())
        return digest.hexdigest()[:12]
    for context_path, source in sorted(image.inputs.items()):
        for path in list_files(source):
            relative_path = "" if path == source else str(path.relative_to(source))
            executable = path.stat().st_mode & 0o111
            digest.update(f"\0{context_path}/{relative_path}\0{bool(executable)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
