"""What Pods of one kind share."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from .base import QUANTITY, ApiModel, ImageReference, NodeSelector, PullSecrets, Resources, Rule, TextMap, Tolerations
from .pod_template import ENVIRONMENT_RULE, RayPodTemplate


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
    run_as_user: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """User of their containers, and group of the same number, which volumes are made writable for. 0 is root. Absent
    means 1000, or 0 where a hostPath volume or an RDMA device needs root."""
    env_from_secrets: PullSecrets = Field(default_factory=list)
    """Names of Secrets whose keys become environment of their containers, e.g. HF_TOKEN or WANDB_API_KEY."""


class RayPods(PodSettings):
    """What all Pods of a Ray cluster share."""

    image: ImageReference
    """Image of every Ray Pod: driver, trainer ranks, engines."""
    head_resources: Resources = Field(default_factory=Resources)
    """Resources of the head Pod, which runs the driver, the router and, in training, the rollout workers."""
    head_pod_template: RayPodTemplate | None = None
    """What is added to the head Pod; absent means nothing."""
    host_network: bool = False
    """All Ray Pods use the network of their nodes: each takes Ray's ports there, so a node runs one Ray Pod, and
    NetworkPolicies do not protect them. The operator must allow it: the chart's value hostPathVolumes."""
    join_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """Seconds from the driver's start in which all Ray Pods must join; then the attempt ends and says which are
    missing. Raise it where nodes are added slowly."""
    shared_memory: Annotated[str, Field(max_length=32, pattern=QUANTITY)] = "2Gi"
    """Size of /dev/shm in every Ray Pod (a quantity); it counts against the Pod's memory."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (ENVIRONMENT_RULE,)
