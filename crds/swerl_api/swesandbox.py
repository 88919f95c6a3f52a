"""SweSandbox: the group of Pods for the rollouts of one prompt; all are created, or none."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import (
    AbsolutePath,
    ApiModel,
    ImageReference,
    Name,
    NodeSelector,
    PullPolicy,
    PullSecrets,
    Resources,
    Rule,
    StatusModel,
    TextMap,
    Tolerations,
)
from .conditions import Condition

SandboxPhase = Literal["Pending", "Admitted", "Ready", "Finished", "Failed"]
MAX_SANDBOX_NAME = 48  # `swesb-<name>-<ordinal>` stays within a host name's 63 characters


class SweSandboxSpec(ApiModel):
    """Desired state; immutable. Pods are single-use: a lost Pod is never recreated."""

    image: ImageReference
    """Task image; it needs `sh` with the tools of coreutils or busybox. Unless egress is allowed, the isolation check
    needs bash, python3 or nc in it."""
    replicas: int = Field(default=1, ge=1, le=1024)
    """Pods of the group, named `swesb-<name>-<ordinal>` with ordinals from 0."""
    workdir: AbsolutePath = "/testbed"
    """Folder of the repository inside the image; commands start there."""
    command: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=64)] | None = None
    """Process 1 of the container; absent means `sh` sleeping for `lifetimeSeconds`."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of each Pod."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the Pods; absent means the cluster's default."""
    host_users: bool | None = None
    """false: each Pod has its own user namespace, in which root is an unprivileged user of the node; absent means the
    operator's setting."""
    env: TextMap = Field(default_factory=dict)
    """Environment of the container, by name."""
    egress: Literal["none", "allow"] = "none"
    """none: no network in or out, verified from inside before the sandbox is claimed; allow: the cluster's default."""
    lifetime_seconds: int = Field(default=3600, ge=1, le=604_800)
    """Maximum seconds of each Pod from its start on a node (activeDeadlineSeconds), even when no operator runs. The
    wait for a node is not limited."""
    owner: Name | None = None
    """Lease, in the same namespace, of the driver that uses the group; when it expires the group is deleted.
    Absent means that only its Pods' lifetime ends it, and nothing while it waits for room or for a node."""
    scrub_git: bool = True
    """Remove git history after the base commit, remotes and reflogs before the sandbox is claimed."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that may run the Pods."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints the Pods tolerate."""
    image_pull_secrets: PullSecrets = Field(default_factory=list)
    """Names of image pull Secrets in the same namespace."""
    image_pull_policy: PullPolicy = "IfNotPresent"
    """Never: an image that the node does not have fails the group at once; IfNotPresent pulls it."""
    task_id: Annotated[str, Field(max_length=253)] = ""
    """instance_id of the task, for the printer column and the label `swerl.dev/task`."""
    max_concurrent: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Admission limit: the group waits while the admitted Pods of the same job label, with this group's, would exceed
    it; oldest group first. Absent means no limit."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", "spec cannot be changed; create another SweSandbox"),
        Rule(
            "!has(self.maxConcurrent) || self.replicas <= self.maxConcurrent",
            "replicas must not exceed maxConcurrent: a group is admitted whole",
            ".replicas",
        ),
    )


class SandboxWaits(StatusModel):
    """Where the time until ready went: seconds, the mean over the group's Pods, to a second's resolution each."""

    queue_seconds: float | None = None
    """From the group's creation to its Pods': admission, and the pace of the node."""
    schedule_seconds: float | None = None
    """From the Pod's creation until it had a node (condition PodScheduled)."""
    prepare_seconds: float | None = None
    """From then until it had its volumes and its network (condition PodReadyToStartContainers)."""
    pull_seconds: float | None = None
    """Of the time from then until the container ran (its startedAt) what its image took: as the kubelet's Event Pulled
    says, its wait for other pulls included; 0 where the node had the image. Mean over the Pods whose Event the operator
    heard; absent when it heard none."""
    start_seconds: float | None = None
    """The rest of that time: the container was created and started. All of it where `pullSeconds` is absent."""


class SweSandboxStatus(StatusModel):
    """Observed state, written by the operator."""

    phase: SandboxPhase | None = None
    """Summary for the printer column; the conditions give the reasons."""
    replicas: int | None = None
    """Pods created so far."""
    ready: int | None = None
    """Pods that can be claimed; their isolation is verified by the claim."""
    running: int | None = None
    """Pods whose container runs, ready or not yet."""
    finished: int | None = None
    """Pods that their client ended: deleted with grace period 0, or exited with 0."""
    failed: int | None = None
    """Pods that were lost: evicted, preempted, out of memory, node gone, image not pulled, deadline, deleted by hand;
    the condition Degraded says why."""
    waits: SandboxWaits | None = None
    """Where the time until ready went; there once the group is ready."""
    cpu_seconds: float | None = None
    """CPU-seconds that the Pods have used, summed up from samples of the cluster's metrics API; as of the last write
    since the group was ready. Other news take it along; without any it is written once, after five minutes (fifteen
    where the start took several writes). Absent without that API, and for Pods that lived too short for a sample."""
    conditions: list[Condition] = Field(default_factory=list)
    """Admitted, Ready, Degraded (Pods were lost, and why), Finished."""
    observed_generation: int | None = None
    """metadata.generation that this status describes."""
