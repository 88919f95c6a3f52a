"""SweImageSet: task images pulled to the nodes before they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import ApiModel, ImageReference, Name, NodeSelector, PullSecrets, Rule, StatusModel, Text, Tolerations
from .conditions import Condition
from .images import rewrite
from .sandbox import RegistryRewrite

ImageSetPhase = Literal["Pending", "Pulling", "Ready", "Failing"]
MAX_IMAGE_SET_NAME = 40
MAX_IMAGES = 5000


class ImageList(ApiModel):
    """A ConfigMap that lists image references, one a line; empty lines and lines that start with # are skipped."""

    config_map: Name
    """ConfigMap in the set's namespace; `swerl tasks images` prints its content."""
    key: Text = "images.txt"
    """Key of the list."""


class SweImageSetSpec(ApiModel):
    """Desired state: which images, on which nodes, at which pace."""

    images: Annotated[list[ImageReference], Field(max_length=MAX_IMAGES)] = Field(default_factory=list)
    """Image references."""
    images_from: ImageList | None = None
    """A list of further references; it is read again at each reconciliation."""
    registry_rewrite: Annotated[list[RegistryRewrite], Field(max_length=16)] = Field(default_factory=list)
    """Rewrites of the references; the first match counts. Give the same ones as the job's `sandbox.registryRewrite`."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that need the images; empty means every node the tolerations allow."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints of nodes that need the images, too."""
    image_pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets in the same namespace."""
    parallel_per_node: int = Field(default=2, ge=1, le=32)
    """Images pulled on one node at once."""
    pulls_per_minute: int = Field(default=30, ge=1, le=100_000)
    """Pulls of this set started in a minute, over all nodes; sets that pull at the same time share it. Each asks for
    about three manifests, apart from its layers; public registries refuse more than about 100 requests a minute."""
    retries: int = Field(default=5, ge=0, le=100)
    """Retries, each after a longer pause, before a pull counts as failed; failed pulls are still retried, slowly."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.images.size() > 0 || has(self.imagesFrom)", "give images or imagesFrom"),
    )

    def references(self, listed: str = "") -> list[str]:
        """The set's images in their order, each once, rewritten; `listed` is the text that imagesFrom names."""
        lines = (line.strip() for line in listed.splitlines())
        named = [*self.images, *(line for line in lines if line and not line.startswith("#"))]
        return list(dict.fromkeys(rewrite(image, self.registry_rewrite) for image in named))


class NodeImages(StatusModel):
    """The set's images on one node."""

    name: str
    """The node."""
    present: int
    """Images present."""
    missing: int
    """Images missing."""
    pulled: str = ""
    """The present images as a hexadecimal number: bit n stands for image n of the set, in the order given."""

    def pulled_images(self, references: Sequence[str]) -> list[str]:
        """Those of the set's `references` that the node has."""
        number = int(self.pulled or "0", 16)
        return [image for n, image in enumerate(references) if number >> n & 1]


class FailedPull(StatusModel):
    """An image that a node could not pull."""

    image: str
    """Reference, rewritten."""
    node: str
    """The node."""
    failures: int
    """Pulls that failed so far."""
    message: str
    """The node's error message."""


class SweImageSetStatus(StatusModel):
    """Observed state, written by the operator."""

    phase: ImageSetPhase | None = None
    """Summary for the printer column; the condition gives the reason."""
    images: int | None = None
    """Different images of the set."""
    nodes: int | None = None
    """Nodes that need them."""
    present: int | None = None
    """Images present, summed over the nodes."""
    missing: int | None = None
    """Images missing, summed over the nodes."""
    failed: int | None = None
    """Pulls that failed and are retried slowly, summed over the nodes."""
    per_node: list[NodeImages] = Field(default_factory=list)
    """The same counts by node."""
    failures: list[FailedPull] = Field(default_factory=list)
    """The first 50 pulls that fail."""
    missing_images: list[str] = Field(default_factory=list)
    """The first 100 images that some node lacks, in the order given; `swerl images missing` prints all of them."""
    list_hash: str | None = None
    """Hash of the list that `perNode.pulled` refers to."""
    conditions: list[Condition] = Field(default_factory=list)
    """Ready."""
    observed_generation: int | None = None
    """metadata.generation that this status describes."""


def list_hash(references: Sequence[str]) -> str:
    """Hash of a set's images in their order."""
    return hashlib.sha256("\n".join(references).encode()).hexdigest()[:16]
