"""Volumes that a job or an evaluation writes to."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from .base import AbsolutePath, ApiModel, Name, Rule, Text, TextMap


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim, read and written by every Ray Pod (ReadWriteMany, or one node)."""

    claim_name: Name
    """PersistentVolumeClaim in the job's namespace."""


class HostPathVolume(ApiModel):
    """A folder of the node, for clusters of one node."""

    path: AbsolutePath
    """Absolute path on the node."""
    type: Literal["", "Directory", "DirectoryOrCreate"] = "DirectoryOrCreate"
    """What the path must be, or becomes."""


class NfsVolume(ApiModel):
    """An NFS export."""

    server: Text
    """Host name or address."""
    path: AbsolutePath
    """Exported path."""


class CsiVolume(ApiModel):
    """An inline volume of a CSI driver."""

    driver: Text
    """Name of the driver."""
    volume_attributes: TextMap = Field(default_factory=dict)
    """Attributes that the driver reads."""


class OutputVolume(ApiModel):
    """Exactly one Kubernetes volume source."""

    persistent_volume_claim: ClaimVolume | None = None
    """A PersistentVolumeClaim."""
    host_path: HostPathVolume | None = None
    """A folder of the node."""
    nfs: NfsVolume | None = None
    """An NFS export."""
    csi: CsiVolume | None = None
    """An inline CSI volume."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.persistentVolumeClaim), has(self.hostPath), has(self.nfs), has(self.csi)]"
            ".filter(given, given).size() == 1",
            "give exactly one of persistentVolumeClaim, hostPath, nfs, csi",
        ),
    )
