"""Checkpoints: where they are written, how often, how many are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from .base import ApiModel, NonNegative, Positive, immutable
from .volumes import OutputVolume

Resume = Annotated[
    Literal["auto", "never"] | Positive,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^(auto|never)$",
            "maxLength": 5,
            "minimum": 1,
        }
    ),
]


class ExportSpec(ApiModel):
    """Weights in Hugging Face format, which transformers and SGLang load."""

    every: NonNegative = 0
    """Training steps between two exports; the last step always makes one. 0: the last step alone."""
    keep_last: Positive = 2
    """Exports kept; older ones are removed."""


class CheckpointSpec(ApiModel):
    """What a later attempt resumes from."""

    volume: OutputVolume = Field(json_schema_extra=immutable("checkpoint.volume"))
    """Volume for all that the job writes, in a folder with the job's name: checkpoints, metrics, episode artifacts,
    logs. Jobs may share a volume; it must be reachable from every Ray Pod."""
    every: Positive = 10
    """Training steps between two checkpoints; the last step always makes one."""
    keep_last: Positive = 2
    """Complete checkpoints kept; older ones are removed."""
    export: ExportSpec | None = None
    """Also write the weights, adapters merged, to `exports/step-<step>` of the job's folder; absent: no exports."""
    mirror: Annotated[str, Field(max_length=512, pattern=r"^[a-z][a-z0-9+]*://.+$")] | None = None
    """Object storage, as fsspec names it: `s3://bucket/folder`, `gs://bucket/folder`. Checkpoints and exports are also
    copied to `<mirror>/<job>/<uid>`; an attempt whose volume lacks the newest checkpoint fetches it. The head Pod needs
    credentials. The trainer images have s3fs and gcsfs; another protocol needs its package in an image of your own."""
    resume: Resume = "auto"
    """auto: an attempt starts from the newest complete checkpoint of this object's earlier attempts, if there is one;
    never: from the model; complete checkpoints stay, and a later `auto` continues from the highest step among them and
    the new ones. A number: from the checkpoint of this step. Later checkpoints, and damaged ones, are renamed
    to `step-<step>.abandoned` and kept, and further attempts continue from the new ones. A job that was deleted and
    created again starts from its model, too: its driver first renames the old job's folder to
    `<name>.<first 8 characters of the old uid>`."""
