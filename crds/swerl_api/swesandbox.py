"""SweSandbox: the group of Pods for the rollouts of one prompt; all are created, or none."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import (
    AbsolutePath,
    ApiModel,
    Egress,
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
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")  # of a sandbox's container
MAX_SANDBOX_NAME = 48  # `swesb-<name>-<ordinal>` stays within a host name's 63 characters


class SweSandboxSpec(ApiModel):
    """Desired state; immutable. Pods are single-use: a lost Pod is never recreated."""

    image: ImageReference
    """Task image; it needs `sh` with the tools of coreutils or busybox. Unless egress is allow, the isolation check
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
    egress: Egress = "none"
    """none: no network in or out. internet: public addresses only, never Pods, Services, nodes or private networks;
    the operator's settings name the name servers. Both are verified from inside before the sandbox is claimed.
    allow: the cluster's default."""
    lifetime_seconds: int = Field(default=3600, ge=1, le=604_800)
    """Maximum seconds of each Pod from its start on a node (activeDeadlineSeconds), even when no operator runs. The
    wait for a node is not limited."""
    owner: Name | None = None
    """Lease, in the same namespace, of the driver that uses the group; when it expires the group is deleted. Absent:
    only the lifetime of its Pods ends the group; the wait for admission or for a node has no limit."""
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
    """Parts of the time until ready, in seconds: means over the group's Pods, each with a resolution of a second."""

    queue_seconds: float | None = None
    """From the creation of the group to that of its Pods: admission and the start window."""
    schedule_seconds: float | None = None
    """From the Pod's creation until it had a node (condition PodScheduled)."""
    prepare_seconds: float | None = None
    """From then until it had its volumes and its network (condition PodReadyToStartContainers)."""
    pull_seconds: float | None = None
    """Duration of the image pull, including its wait for other pulls, from the kubelet's Event Pulled; 0 if the node
    had the image. Mean over the Pods whose Event the operator received; absent if it received none."""
    start_seconds: float | None = None
    """The remaining time until the container ran (its startedAt), for its creation and start. Includes the pull if
    `pullSeconds` is absent."""


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
    """Parts of the time until the group was ready; set once it is ready."""
    cpu_seconds: float | None = None
    """CPU-seconds that the Pods have used, summed up from samples of the cluster's metrics API. It is written with
    other changes; without any it is written once, after five minutes (fifteen if the start took several writes). Absent
    without that API, and for Pods that lived too short for a sample."""
    conditions: list[Condition] = Field(default_factory=list)
    """Admitted, Ready, Degraded (Pods were lost, and why), Finished."""
    observed_generation: int | None = None
    """metadata.generation that this status describes."""
