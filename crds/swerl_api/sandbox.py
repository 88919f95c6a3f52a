"""The Pods in which episodes run commands."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import (
    AbsolutePath,
    ApiModel,
    Egress,
    LabelValue,
    Name,
    NodeSelector,
    Positive,
    PullPolicy,
    PullSecrets,
    Resources,
    Rule,
    Seconds,
    Tolerations,
)

# Of every spec that has `agent`, `sandbox` and `grading`.
SANDBOX_RULES = (
    Rule(
        "self.agent.episodeTimeoutSeconds + 180 <= self.sandbox.lifetimeSeconds",
        "sandbox.lifetimeSeconds must be at least agent.episodeTimeoutSeconds + 180, so that no sandbox ends first",
        ".sandbox.lifetimeSeconds",
    ),
    Rule(
        "self.grading.timeoutSeconds < self.sandbox.lifetimeSeconds",
        "grading.timeoutSeconds must be below sandbox.lifetimeSeconds, so that a sandbox outlives its grading timeout",
        ".grading.timeoutSeconds",
    ),
)


class RegistryRewrite(ApiModel):
    """Replaces a prefix of image references, e.g. docker.io/ by that of your registry."""

    prefix: Annotated[str, Field(max_length=256)] = ""
    """References that start with this are rewritten; empty matches every reference."""
    replacement: Annotated[str, Field(max_length=256)]
    """Text that replaces the prefix."""


class SandboxSpec(ApiModel):
    """The Pods in which episodes run commands."""

    resources: Resources = Field(
        default_factory=lambda: Resources(
            requests={"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
            limits={"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"},
        )
    )
    """Resources of one sandbox."""
    runtime_class_name: Name | None = None
    """RuntimeClass of sandbox and grading Pods, e.g. gvisor; absent means the cluster's default."""
    host_users: bool | None = None
    """false: each sandbox has its own user namespace; absent means the operator's setting."""
    queue_name: LabelValue | None = None
    """Kueue LocalQueue that admits each group of sandboxes as a unit; absent means no queue. Use another queue than
    queueName: in the queue that admitted the trainer, sandboxes could wait for quota that the trainer holds."""
    max_concurrent: Positive = 128
    """Sandbox Pods of this job at the same time; further groups wait in the order of their creation."""
    prefetch: int = Field(default=1, ge=0, le=64)
    """Groups created ahead of the current one, as far as maxConcurrent has room for one more. A group whose lifetime
    could end before its episode is replaced."""
    registry_rewrite: Annotated[list[RegistryRewrite], Field(max_length=16)] = Field(default_factory=list)
    """Rewrites of task image references; the first match counts."""
    image_set: Name | None = None
    """SweImageSet of the task images; the job creates no Ray cluster before it is Ready."""
    egress: Egress = "none"
    """none: no network in or out. internet: public addresses only, never Pods, Services, nodes or private networks;
    the operator's settings name the name servers. Both are verified from inside before use. allow: the cluster's
    default."""
    pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets in the job's namespace."""
    image_pull_policy: PullPolicy = "IfNotPresent"
    """IfNotPresent: the node pulls an image that it does not have. Never: sandbox and grading Pods fail at once if the
    node does not have their image, so that no episode waits for a registry; imageSet pulls images ahead."""
    scrub_git: bool = True
    """Remove git history after the base commit, remotes and reflogs before the agent starts."""
    workdir: AbsolutePath = "/testbed"
    """Folder of the repository inside task images."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that may run sandbox and grading Pods."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints that sandbox and grading Pods tolerate."""
    lifetime_seconds: Seconds = 3600
    """Maximum lifetime of a sandbox Pod in seconds; it holds even when no operator runs."""
