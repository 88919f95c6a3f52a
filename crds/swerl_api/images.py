"""Image references, their rewriting, and the kubelet's reasons for failed pulls."""

from __future__ import annotations

from collections.abc import Iterable

from .sandbox import RegistryRewrite

DOCKER_HUB = "docker.io/"

# Reasons of a waiting container. Its image cannot be had: a pull failed and a retry follows soon; retries failed and
# the kubelet pauses between them; no retry can help.
PULL_TRIED = frozenset({"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed", "ImageInspectError"})
PULL_PAUSES = frozenset({"ImagePullBackOff"})
PERMANENT_PULL_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
PULL_REASONS = PULL_TRIED | PULL_PAUSES | PERMANENT_PULL_REASONS
# The image is there, the container cannot be started.
START_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def rewrite(reference: str, rules: Iterable[RegistryRewrite]) -> str:
    """`reference` with the first matching rule applied.

    A reference without registry host means Docker Hub, so a rule for `docker.io/` matches it too.
    """
    for rule in rules:
        for name in (reference, DOCKER_HUB + reference):
            if name.startswith(rule.prefix) and (name == reference or not has_host(reference)):
                return rule.replacement + name.removeprefix(rule.prefix)
    return reference


def has_host(reference: str) -> bool:
    """Whether an image reference begins with a registry's host."""
    first, slash, _ = reference.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")
