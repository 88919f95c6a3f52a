"""What users add to the Pods of one role of a Ray cluster.

Guarantee: what the job depends on has no field here, or is refused at apply: names, commands, images and ports of Ray's
containers, their service account, labels and annotations of swerl.dev and ray.io, our volumes and paths.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import (
    AbsolutePath,
    ApiModel,
    ImageReference,
    KubernetesObject,
    LabelValue,
    Name,
    NodeSelector,
    Quantity,
    RelativePath,
    Resources,
    Rule,
    TextMap,
    Tolerations,
)
from .source import ConfigMapSource
from .volumes import OutputVolume

PartName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Labels = Annotated[dict[str, LabelValue], Field(max_length=32)]
Words = Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=64)]
Capability = Annotated[str, Field(max_length=64, pattern=r"^[A-Z_]+$")]

OUR_VOLUMES = ("job", "evaluation", "output", "model", "tasks", "prompts", "judge", "checkpoints", "shared-memory")
OUR_PATHS = ("/swerl", "/etc/swerl", "/dev/shm", "/tmp/ray")
OUR_PREFIXES = ("swerl.dev/", "ray.io/", "app.kubernetes.io/")
APPARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"  # the API server makes a container's profile of it
# KubeRay sets these where they are absent, and Ray's start depends on them.
OUR_VARIABLES = (
    "FQ_RAY_IP", "RAY_IP", "RAY_PORT", "RAY_ADDRESS", "RAY_CLUSTER_NAME", "RAY_CLOUD_INSTANCE_ID",
    "RAY_NODE_TYPE_NAME", "REDIS_PASSWORD",
)  # fmt: skip
OUR_VARIABLE_PREFIXES = ("KUBERAY_", "RAY_AUTH_", "SWERL_")


def _starts_with_any(name: str, prefixes: tuple[str, ...]) -> str:
    return " || ".join(f"{name}.startsWith('{prefix}')" for prefix in prefixes)


ENVIRONMENT_RULE = Rule(
    f"self.env.all(name, !(name in {list(OUR_VARIABLES)}) && !({_starts_with_any('name', OUR_VARIABLE_PREFIXES)}))",
    f"env must not set {'*, '.join(OUR_VARIABLE_PREFIXES)}*, {', '.join(OUR_VARIABLES)}: Ray and swe-rl set them; "
    "remove the variable",
    ".env",
)


class ScratchFolder(ApiModel):
    """An empty folder that ends with the Pod."""

    medium: Literal["", "Memory"] = ""
    """Memory: in the node's memory, which counts against the Pod's; empty: on the node's disk."""
    size_limit: Quantity | None = None
    """The most that it may hold; absent means no limit."""


class SecretVolume(ApiModel):
    """The keys of a Secret as files."""

    secret_name: Name
    """Secret in the job's namespace."""


class PodVolume(OutputVolume):
    """A volume of the Pod: its name, and exactly one source."""

    name: PartName
    """Name that `volumeMounts` use."""
    empty_dir: ScratchFolder | None = None
    """An empty folder."""
    config_map: ConfigMapSource | None = None
    """A ConfigMap."""
    secret: SecretVolume | None = None
    """A Secret."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.persistentVolumeClaim), has(self.hostPath), has(self.nfs), has(self.csi), has(self.emptyDir),"
            " has(self.configMap), has(self.secret)].filter(given, given).size() == 1",
            "give exactly one of persistentVolumeClaim, hostPath, nfs, csi, emptyDir, configMap, secret",
        ),
        Rule(
            f"!(self.name in {list(OUR_VOLUMES)})",
            f"{', '.join(OUR_VOLUMES)} are names of swe-rl's own volumes; use another name",
            ".name",
        ),
    )


class VolumeMount(ApiModel):
    """Where a container sees a volume."""

    name: PartName
    """One of `volumes`."""
    mount_path: AbsolutePath
    """Absolute path in the container."""
    sub_path: RelativePath = ""
    """Folder or file inside the volume; empty means its root."""
    read_only: bool = False
    """The container cannot write there."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.mountPath != '/' && !{list(OUR_PATHS)}.exists(path, self.mountPath == path"
            " || self.mountPath.startsWith(path + '/'))",
            f"mountPath must not be / or in {', '.join(OUR_PATHS)}, which swe-rl and Ray use; use another path",
            ".mountPath",
        ),
    )


Mounts = Annotated[list[VolumeMount], Field(max_length=16)]


class InitContainer(ApiModel):
    """A container that ends before Ray starts, or runs beside it."""

    name: PartName
    """Name of the container."""
    image: ImageReference
    """Image of the container."""
    command: Words = Field(default_factory=list)
    """Its program; empty means the image's."""
    args: Words = Field(default_factory=list)
    """Arguments of the program."""
    env: TextMap = Field(default_factory=dict)
    """Its environment, by name."""
    volume_mounts: Mounts = Field(default_factory=list)
    """Where it sees `volumes`."""
    resources: Resources = Field(default_factory=Resources)
    """Its resources."""
    restart_policy: Literal["Always"] | None = None
    """Always: a sidecar, which starts before Ray and ends after it. Absent: Ray starts when it has succeeded."""
    capabilities: Annotated[list[Capability], Field(max_length=8)] = Field(default_factory=list)
    """Linux capabilities, e.g. NET_ADMIN; all others are dropped. The operator must allow them: the chart's value
    hostPathVolumes."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!({_starts_with_any('self.name', ('ray-', 'copy-', 'wait-'))})",
            "names of containers that begin with ray-, copy- or wait- are swe-rl's own; use another name",
            ".name",
        ),
    )


class ResourceClaim(ApiModel):
    """Devices by dynamic resource allocation, for the Ray container."""

    name: PartName
    """Name of the claim in the Pod."""
    resource_claim_template_name: Name
    """ResourceClaimTemplate in the job's namespace; each Pod gets a claim of its own."""


class RayPodTemplate(ApiModel):
    """What is added to the Pods of one role. It takes effect at the next attempt."""

    labels: Labels = Field(default_factory=dict)
    """Further labels of the Pods."""
    annotations: TextMap = Field(default_factory=dict)
    """Further annotations of the Pods, e.g. of secondary networks or of Kueue's topology."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Nodes that may run these Pods, besides the nodeSelector of all Ray Pods."""
    tolerations: Tolerations = Field(default_factory=list)
    """Taints that these Pods tolerate, besides the tolerations of all Ray Pods."""
    affinity: KubernetesObject | None = None
    """Kubernetes affinity. Absent: trainer Pods with GPUs prefer to be together, on one node, else in one zone."""
    topology_spread_constraints: Annotated[list[KubernetesObject], Field(max_length=8)] = Field(default_factory=list)
    """Kubernetes topology spread constraints."""
    priority_class_name: Name | None = None
    """PriorityClass of the Pods; absent means the cluster's default."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the Pods, e.g. nvidia; absent means the cluster's default."""
    env: TextMap = Field(default_factory=dict)
    """Environment of the Ray container, by name; it overrides the environment of all Ray Pods."""
    volumes: Annotated[list[PodVolume], Field(max_length=16)] = Field(default_factory=list)
    """Further volumes. The operator must allow a hostPath: the chart's value hostPathVolumes."""
    volume_mounts: Mounts = Field(default_factory=list)
    """Where the Ray container sees `volumes`."""
    init_containers: Annotated[list[InitContainer], Field(max_length=8)] = Field(default_factory=list)
    """Further containers, which start in this order before Ray."""
    resource_claims: Annotated[list[ResourceClaim], Field(max_length=8)] = Field(default_factory=list)
    """Devices by dynamic resource allocation. Devices of device plugins, e.g. rdma/hca_shared or vpc.amazonaws.com/efa,
    belong into `resources`."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        *(
            Rule(
                f"self.{field}.all(key, !({_starts_with_any('key', OUR_PREFIXES)}))",
                f"{field} must not begin with {', '.join(OUR_PREFIXES)}: swe-rl and KubeRay set those; rename it",
                f".{field}",
            )
            for field in ("labels", "annotations")
        ),
        Rule(
            f"self.annotations.all(key, !key.startsWith('{APPARMOR_PREFIX}'))",
            f"annotations must not begin with {APPARMOR_PREFIX}: containers keep the runtime's AppArmor profile; "
            "remove the annotation",
            ".annotations",
        ),
        ENVIRONMENT_RULE,
        Rule(
            "self.volumeMounts.all(mount, self.volumes.exists(volume, volume.name == mount.name))",
            "volumeMounts must name volumes of this podTemplate; add the volume to volumes",
            ".volumeMounts",
        ),
        Rule(
            "self.initContainers.all(container, container.volumeMounts.all(mount,"
            " self.volumes.exists(volume, volume.name == mount.name)))",
            "volumeMounts of initContainers must name volumes of this podTemplate; add the volume to volumes",
            ".initContainers",
        ),
    )
