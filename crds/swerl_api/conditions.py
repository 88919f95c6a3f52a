"""Condition types and reasons, and updates of condition lists.

Guarantee: `lastTransitionTime` changes only when `status` does. An unchanged condition compares equal, so an unchanged
status is not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from .base import StatusModel

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(StatusModel):
    """One observation about an object, in the form Kubernetes tools understand."""

    type: str = Field(max_length=64)
    """What is observed, e.g. Ready."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: str = Field(max_length=128)
    """Why `status` has this value: one CamelCase word."""
    message: str = Field(default="", max_length=4096)
    """What happened, where, and what to do about it."""
    last_transition_time: str = Field(json_schema_extra={"format": "date-time"})
    """When `status` last changed, RFC 3339 UTC."""
    observed_generation: int | None = None
    """metadata.generation that the condition describes."""


class JobCondition:
    """Condition types of a SweRLJob."""

    VALIDATED = "Validated"
    CAPACITY = "CapacityMatched"  # False is a warning: the job runs, but more slowly than its spec asks for
    IMAGES_READY = "ImagesReady"
    CLUSTER_READY = "ClusterReady"
    TRAINING = "Training"
    LEARNING = "Learning"  # False is a warning: the last steps changed no weight
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


class JobReason:
    """Condition reasons of a SweRLJob."""

    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    KUBERAY_MISSING = "KubeRayMissing"
    VOLUME_CLAIM_MISSING = "VolumeClaimMissing"
    CONFIG_MAP_MISSING = "ConfigMapMissing"
    IMAGE_SET_MISSING = "ImageSetMissing"
    WAITING_FOR_IMAGES = "WaitingForImages"
    RUNTIME_CLASS_MISSING = "RuntimeClassMissing"
    ROLE_MISSING = "DriverRoleMissing"
    HOST_PATH_REFUSED = "HostPathRefused"
    FOREIGN_OBJECT = "ForeignObject"  # an object that the job needs exists and is not its own
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    VOLUME_NOT_SHARED = "VolumeNotShared"  # a claim for one node, and Ray Pods that need several
    LAYOUT_REFUSED = "LayoutRefused"
    SANDBOXES_LIMITED = "SandboxesLimited"
    CAPACITY_MATCHED = "CapacityMatched"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    PREFLIGHT = "Preflight"
    PREFLIGHT_FAILED = "PreflightFailed"
    SOURCE_MISSING = "SourceMissing"
    DOWNLOAD_FAILED = "DownloadFailed"  # of a model that the job names by a Hugging Face id
    CONTAINER_START_FAILED = "ContainerStartFailed"
    SOURCE_COPY_FAILED = "SourceCopyFailed"
    IMAGES_PULLED = "ImagesPulled"
    CLUSTER_CREATED = "ClusterCreated"
    CLUSTER_STARTING = "ClusterStarting"
    CLUSTER_RUNNING = "ClusterRunning"
    CLUSTER_DELETED = "ClusterDeleted"
    POD_UNSCHEDULABLE = "PodUnschedulable"
    POD_DISRUPTED = "PodDisrupted"  # it leaves its node: evicted, drained, preempted
    POD_REFUSED = "PodRefused"  # by admission: a quota, a LimitRange, Pod Security, a webhook
    DRIVER_SUBMITTED = "DriverSubmitted"
    DRIVER_RUNNING = "DriverRunning"
    WEIGHTS_CHANGED = "WeightsChanged"
    NO_SIGNAL = "NoSignal"
    DRIVER_FAILED = "DriverFailed"
    DRIVER_SUCCEEDED = "DriverSucceeded"
    REQUEST_REFUSED = "RequestRefused"
    HEAD_LOST = "HeadLost"
    WAITING_FOR_QUEUE = "WaitingForQueue"
    STOPPING = "StoppingPreviousAttempt"
    RETRYING = "Retrying"
    RETRIES_EXHAUSTED = "RetriesExhausted"
    RETRY_REQUESTED = "RetryRequested"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"


class SandboxCondition:
    """Condition types of a SweSandbox."""

    ADMITTED = "Admitted"
    READY = "Ready"
    DEGRADED = "Degraded"  # Pods were lost; absent while none was
    FINISHED = "Finished"


class SandboxReason:
    """Condition reasons of a SweSandbox."""

    ADMITTED = "Admitted"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    WAITING_FOR_ISOLATION = "WaitingForIsolation"
    CREATING = "Creating"
    SIDECAR_NOT_READY = "SidecarNotReady"  # a container that others, such as a mesh, added to the Pod
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING_GATED = "SchedulingGated"
    PULLING_IMAGE = "PullingImage"
    VERIFYING_ISOLATION = "VerifyingIsolation"
    NOT_ISOLATED = "NotIsolated"
    ALL_READY = "AllReady"
    COMPLETED = "Completed"
    LEASE_EXPIRED = "LeaseExpired"
    LIFETIME_EXCEEDED = "LifetimeExceeded"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    EVICTED = "Evicted"
    STORAGE_EXCEEDED = "StorageExceeded"
    PREEMPTED = "Preempted"
    OOM_KILLED = "OOMKilled"
    NODE_LOST = "NodeLost"
    CONTAINER_EXITED = "ContainerExited"
    FOREIGN_ARCHITECTURE = "ForeignArchitecture"
    POD_DELETED = "PodDeleted"
    POD_LOST = "PodLost"
    POD_REJECTED = "PodRejected"


class ImageSetCondition:
    """Condition types of a SweImageSet."""

    READY = "Ready"


class ImageSetReason:
    """Condition reasons of a SweImageSet."""

    ALL_PRESENT = "AllPresent"
    PULLING = "Pulling"
    PULL_FAILED = "PullFailed"
    POD_REFUSED = "PodRefused"  # by admission: a quota, a LimitRange, Pod Security, a webhook
    NO_NODES = "NoNodes"
    LIST_MISSING = "ListMissing"
    INVALID_SPEC = "InvalidSpec"


class EvalCondition:
    """Condition types of a SweEval."""

    VALIDATED = "Validated"
    CAPACITY = "CapacityMatched"  # False is a warning: no node is large enough at present
    IMAGES_READY = "ImagesReady"
    MODEL_READY = "ModelReady"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


class EvalReason(JobReason):
    """Condition reasons of a SweEval: those of a SweRLJob, and its own."""

    JOB_MISSING = "JobMissing"
    NO_CHECKPOINT = "NoCheckpoint"
    NAME_IN_USE = "NameInUse"
    ENDPOINT_GIVEN = "EndpointGiven"
    ENGINES_STARTING = "EnginesStarting"
    ENGINES_SERVING = "EnginesServing"
    ENGINES_LOST = "EnginesLost"
    ENGINES_DELETED = "EnginesDeleted"
    SHARDS_RUNNING = "ShardsRunning"
    SHARDS_FAILED = "ShardsFailed"
    MERGING = "Merging"
    MERGE_FAILED = "MergeFailed"
    ALL_RESULTS = "AllResults"


def now() -> str:
    """Current time as Kubernetes writes it (RFC 3339, seconds, UTC)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_condition(
    conditions: Sequence[Condition],
    type: str,
    status: ConditionStatus,
    reason: str,
    message: str = "",
    *,
    generation: int | None = None,
    time: str | None = None,
) -> list[Condition]:
    """`conditions` with that of `type` replaced or added; its transition time changes only if `status` does."""
    previous = next((c for c in conditions if c.type == type), None)
    changed = previous is None or previous.status != status
    moment = (time or now()) if changed or previous is None else previous.last_transition_time
    updated = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message[:4096],
        last_transition_time=moment,
        observed_generation=generation,
    )
    if previous is None:
        return [*conditions, updated]
    return [updated if c.type == type else c for c in conditions]


def is_condition_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether condition `type` is True."""
    return any(condition.type == type and condition.status == "True" for condition in conditions)


def find_condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    """The condition of `type`, or None."""
    return next((c for c in conditions if c.type == type), None)
