"""Image references, as container runtimes resolve them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swerl_api.images import has_host

DOCKER_HUB = "docker.io"
HUB_NAMES = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io"})
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}")


class ReferenceError(ValueError):
    """Text that is not an image reference."""


@dataclass(frozen=True)
class ParsedReference:
    """One image: its registry, the repository there, and a tag or a digest."""

    registry: str  # host, with its port where one is given; Docker Hub is `docker.io`
    repository: str
    version: str  # the digest, where tag and digest are given


def parse_reference(text: str) -> ParsedReference:
    """The image that `text` names; without registry it is Docker Hub's, without version `latest`.

    Raises ReferenceError.
    """
    name, at, digest = text.partition("@")
    first, _, rest = name.partition("/")
    registry, path = (first, rest) if has_host(name) else (DOCKER_HUB, name)
    repository, colon, tag = path.partition(":")
    if registry in HUB_NAMES:
        registry, repository = DOCKER_HUB, repository if "/" in repository else f"library/{repository}"
    if not _REPOSITORY.fullmatch(repository):
        raise ReferenceError(f"{text!r} is not an image reference: repository {repository!r} is malformed")
    if colon and not _TAG.fullmatch(tag):
        raise ReferenceError(f"{text!r} is not an image reference: tag {tag!r} is malformed")
    if at and not _DIGEST.fullmatch(digest):
        raise ReferenceError(f"{text!r} is not an image reference: digest {digest!r} is malformed")
    return ParsedReference(registry, repository, digest or tag or "latest")
