"""Checkpoints: where they are written, how often, how many are kept."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import ApiModel, Positive, immutable
from .volumes import OutputVolume


class CheckpointSpec(ApiModel):
    """What a later attempt resumes from."""

    volume: OutputVolume = Field(json_schema_extra=immutable("checkpoint.volume"))
    """Volume for all that the job writes, in a folder with the job's name: checkpoints, metrics, episode artifacts,
    logs. Jobs may share a volume; it must be reachable from every Ray Pod."""
    every: Positive = 10
    """Training steps between two checkpoints; the last step always makes one."""
    keep_last: Positive = 2
    """Complete checkpoints kept; older ones are removed."""
    resume: Literal["auto", "never"] = "auto"
    """auto: an attempt starts from the newest complete checkpoint of this object's earlier attempts, if there is one;
    never: from the model. A job that was deleted and created again starts from its model, too: its driver first renames
    the old job's folder to `<name>.<first 8 characters of the old uid>`."""
