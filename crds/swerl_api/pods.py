"""What Pods of one kind share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import QUANTITY, ApiModel, ImageReference, NodeSelector, PullSecrets, Resources, TextMap, Tolerations


class PodSettings(ApiModel):
    """What Pods of the same kind share."""

    image: ImageReference
    """Image of these Pods."""
    pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets for `image`."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that may run these Pods."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints that these Pods tolerate."""
    env: TextMap = Field(default_factory=dict)
    """Environment of their containers, by name."""
    env_from_secrets: PullSecrets = Field(default_factory=list)
    """Names of Secrets whose keys become environment of their containers, e.g. HF_TOKEN or WANDB_API_KEY."""


class RayPods(PodSettings):
    """What all Pods of a Ray cluster share."""

    image: ImageReference
    """Image of every Ray Pod: driver, trainer ranks, engines."""
    head_resources: Resources = Field(default_factory=Resources)
    """Resources of the head Pod, which runs the driver, the router and, in training, the rollout workers."""
    shared_memory: Annotated[str, Field(max_length=32, pattern=QUANTITY)] = "2Gi"
    """Size of /dev/shm in every Ray Pod (a quantity); it counts against the Pod's memory."""
