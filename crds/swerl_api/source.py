"""Where data comes from: one shape for models, tasks and held-out tasks."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from .base import AbsolutePath, ApiModel, ImageReference, Name, PullSecrets, RelativePath, Rule, Text


class VolumeClaimSource(ApiModel):
    """A folder of a PersistentVolumeClaim, mounted read-only."""

    claim_name: Name
    """PersistentVolumeClaim in the job's namespace."""
    path: RelativePath = ""
    """Folder inside the volume; empty means its root."""


class ConfigMapSource(ApiModel):
    """The keys of a ConfigMap as files (at most 1 MiB together)."""

    name: Name
    """ConfigMap in the job's namespace."""


class ImageSource(ApiModel):
    """A folder inside a container image, copied out by an init container of that image (it needs `sh` and `cp`)."""

    reference: ImageReference
    """Image reference; prefer one with a digest."""
    path: AbsolutePath
    """Absolute path of the folder inside the image."""
    pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets in the job's namespace."""


class HuggingFaceSource(ApiModel):
    """A Hugging Face repository, downloaded by the driver at its start: a model onto the output volume, where it stays
    for all jobs that name this id and revision, a data set into the head Pod. Needs egress, a private one HF_TOKEN."""

    id: Text = Field(min_length=1)
    """Repository id, e.g. Qwen/Qwen3-4B or SumanthRH/SWE-Gym-Subset."""
    revision: Text = "main"
    """Branch, tag or commit; a commit makes the run repeatable. The condition Validated names others, which float."""
    config: Text | None = None
    """Configuration of a data set that has several; ignored for models."""
    split: Text | None = None
    """Split of a data set; absent means test of SWE-bench sets, train of others. Ignored for models."""


class SourceSpec(ApiModel):
    """Exactly one source."""

    persistent_volume_claim: VolumeClaimSource | None = None
    """A folder of a PersistentVolumeClaim."""
    config_map: ConfigMapSource | None = None
    """A ConfigMap of the job's namespace; for small task sets."""
    image: ImageSource | None = None
    """A folder inside a container image."""
    hugging_face: HuggingFaceSource | None = None
    """A Hugging Face repository."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.persistentVolumeClaim), has(self.configMap), has(self.image), has(self.huggingFace)]"
            ".filter(given, given).size() == 1",
            "give exactly one of persistentVolumeClaim, configMap, image, huggingFace",
        ),
    )
