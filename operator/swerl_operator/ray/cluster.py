"""The RayCluster manifest of a plan: groups of equal Pods, the head first.

Guarantees: a pure function of the plan; the head runs the driver with the only service-account token, workers have
none; a dead Ray container is never restarted in place (restartPolicy Never), so that a lost head is noticed; custom Ray
resources place ranks, engines and rollout workers. Ray takes no call without the token of the plan's Secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swerl_api import RayPods, RayPodTemplate, Resources
from swerl_api.addresses import ANY, ANY_IPV4
from swerl_api.names import RAY_AGENT_PORT, ROLE_DRIVER, ROLE_LABEL, ROLE_TRAIN
from swerl_api.pod_metadata import without_mesh
from swerl_api.pod_security import RESTRICTED, pod_security
from swerl_api.pods import PodSettings
from swerl_api.quantity import parse_quantity
from swerl_kube import Json
from swerl_plan.nodes import toleration_manifests
from swerl_plan.pods import with_gpus

from .credentials import ray_environment
from .templates import prefer_together, template_volumes, with_template
from .users import containers_user
from .volumes import HELPER_RESOURCES, PodVolumes, merge_volumes

RAY_API = "ray.io/v1"
GCS_PORT, DASHBOARD_PORT = 6379, 8265
RAY_METRICS_PORT = 8080  # on every node
# Fixed ports let the agent on a busy node register in time (swerl_trainer/ray_start).
AGENT_PORTS = {
    "dashboard-agent-listen-port": str(RAY_AGENT_PORT),
    "dashboard-agent-grpc-port": "52366",
    "runtime-env-agent-port": "52367",
    "metrics-export-port": str(RAY_METRICS_PORT),
}
POD_IP = "SWERL_POD_IP"
# Part of KubeRay's shell command. Ray's dashboard listens on one family; the operator uses that of the Pod's address.
DASHBOARD_HOST = f"$([[ ${POD_IP} == *:* ]] && echo {ANY} || echo {ANY_IPV4})"
GRACE_SECONDS = 10  # from SIGTERM to SIGKILL: nothing is saved on the way out, checkpoints are atomic
MINIMUM_OBJECT_STORE = 80 * 2**20  # bytes; Ray refuses less than 75 MB
OBJECT_STORE_SHARE = 2  # Ray gets one part in this many of shared memory, torch the rest

# A busy node answers late: it counts as dead after 10 missed checks of up to 30 s, not after seconds. Actors run at
# normal priority, because trainer and engines are the main load.
RAY_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_failure_threshold": "10",
    "RAY_health_check_period_ms": "5000",
    "RAY_health_check_timeout_ms": "30000",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_niceness": "0",
}
RDMA_RESOURCES = ("rdma", "/hca", "/efa", "/ib")  # parts of the names that device plugins give
GPU_ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


@dataclass(frozen=True)
class RayGroup:
    """One group of equal Ray Pods."""

    name: str
    role: str
    replicas: int
    gpus: int  # per Pod
    resources: Resources
    ray_resources: dict[str, int]  # custom Ray resources per Pod
    volumes: Sequence[PodVolumes]  # mounted in its Pods
    spec_field: str  # the field that sizes its Pods
    environment: dict[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)  # besides Ray's; those of the head become its Service's
    template: RayPodTemplate = field(default_factory=RayPodTemplate)  # what the user adds to its Pods


@dataclass(frozen=True)
class RayClusterPlan:
    """A RayCluster to create; the head is the first of its groups."""

    metadata: Json  # of the RayCluster
    labels: Mapping[str, str]  # of its Pods, besides their role
    account: str  # ServiceAccount of the head
    pods: RayPods
    spec_field: str  # the field that holds `pods`
    groups: Sequence[RayGroup]
    secret: str | None = None  # with the credentials of its Pods; None where only their sizes matter

    @property
    def user(self) -> int:
        """User of all its containers: they share files."""
        volumes = [
            volume
            for group in self.groups
            for part in (*group.volumes, template_volumes(group.template))
            for volume in part.volumes
        ]
        return containers_user(self.pods, volumes, rdma=any(uses_rdma(group.resources) for group in self.groups))

    def template_field(self, group: RayGroup) -> str:
        """The field that holds the template of `group`."""
        return f"{self.spec_field}.headPodTemplate" if group.role == ROLE_DRIVER else f"{group.spec_field}.podTemplate"


def ray_cluster(plan: RayClusterPlan) -> Json:
    """RayCluster v1 (KubeRay >= 1.4)."""
    head, *workers = plan.groups
    return {
        "apiVersion": RAY_API,
        "kind": "RayCluster",
        "metadata": plan.metadata,
        "spec": {
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "rayStartParams": {"dashboard-host": DASHBOARD_HOST, **_ray_start(plan)},
                "resources": _ray_resources(head),
                "template": pod_template(plan, head),
            },
            "workerGroupSpecs": [_worker_group(plan, group) for group in workers],
        },
    }


def pod_template(plan: RayClusterPlan, group: RayGroup) -> Json:
    """Pod template of `group`."""
    merged = merge_volumes([*group.volumes, template_volumes(group.template)])
    wait = [] if group.role == ROLE_DRIVER else [_wait_for_head(plan)]
    pod: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "securityContext": pod_security(plan.user),
        "automountServiceAccountToken": group.role == ROLE_DRIVER,
        "nodeSelector": plan.pods.node_selector,
        "tolerations": toleration_manifests(plan.pods.tolerations, gpus=bool(group.gpus)),
        "imagePullSecrets": [{"name": name} for name in pull_secrets(plan.pods, merged)],
        "initContainers": [*merged.init_containers, *wait],
        "containers": [_ray_container(plan, group, merged.mounts)],
        "volumes": merged.volumes,
    }
    if group.role == ROLE_DRIVER:
        pod["serviceAccountName"] = plan.account
    if group.role == ROLE_TRAIN and group.gpus and group.replicas > 1:
        pod["affinity"] = prefer_together(plan.labels, group.role)  # most traffic is between neighbouring ranks
    if plan.pods.host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    ours = {"metadata": {"labels": {**plan.labels, ROLE_LABEL: group.role}}, "spec": pod}
    manifest = with_template(ours, group.template)
    spec = {key: value for key, value in manifest["spec"].items() if value != []}
    return {"metadata": without_mesh(manifest["metadata"]), "spec": spec}


def pull_secrets(pods: PodSettings, merged: PodVolumes) -> list[str]:
    """Pull secrets of the Pods' image and of the image sources, each once."""
    return list(dict.fromkeys([*pods.pull_secrets, *merged.pull_secrets]))


def container_environment(
    pods: PodSettings, environment: Mapping[str, str], template: RayPodTemplate | None = None
) -> Json:
    """`env` and `envFrom` of a container: values of the user override `environment`, those of `template` all others."""
    values = {**environment, **pods.env, **(template.env if template else {})}
    return {"env": [{"name": name, "value": value} for name, value in values.items()], **secret_environment(pods)}


def secret_environment(pods: PodSettings) -> Json:
    """`envFrom` of a container; empty without Secrets."""
    return {"envFrom": [{"secretRef": {"name": name}} for name in names]} if (names := pods.env_from_secrets) else {}


def _worker_group(plan: RayClusterPlan, group: RayGroup) -> Json:
    return {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "rayStartParams": _ray_start(plan),
        "resources": _ray_resources(group),
        "template": pod_template(plan, group),
    }


def _ray_container(plan: RayClusterPlan, group: RayGroup, mounts: list[Json]) -> Json:
    capabilities = {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    security = RESTRICTED | {"capabilities": capabilities} if uses_rdma(group.resources) else RESTRICTED
    environment = container_environment(plan.pods, RAY_ENVIRONMENT | group.environment, group.template)
    environment["env"] += ray_environment(plan.secret) if plan.secret else []
    container: Json = {
        "name": f"ray-{group.name}",
        "image": plan.pods.image,
        **environment,
        "resources": container_resources(group),
        "securityContext": security,
        "readinessProbe": _probe(period=2, failures=30),
        "livenessProbe": _probe(period=10, failures=60),
        "volumeMounts": mounts,
    }
    if group.role == ROLE_DRIVER:
        ports = {"gcs": GCS_PORT, "dashboard": DASHBOARD_PORT, "client": 10001, **group.ports}
        container["ports"] = [{"name": name, "containerPort": port} for name, port in ports.items()]
        container["env"] += [{"name": POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    if plan.pods.host_network:  # the scheduler then gives no node two Ray Pods, whose ports are the same
        agent = {"name": "agent", "containerPort": RAY_AGENT_PORT, "hostPort": RAY_AGENT_PORT}
        container["ports"] = [*container.get("ports", []), agent]
    return container


def _wait_for_head(plan: RayClusterPlan) -> Json:
    """Ends when the head answers; cheaper than KubeRay's own `wait-gcs-ready`, which starts Ray for each request."""
    script = f'until (: <"/dev/tcp/$FQ_RAY_IP/{GCS_PORT}") 2>/dev/null; do sleep 0.5; done'
    return {
        "name": "wait-for-head",
        "image": plan.pods.image,
        "command": ["bash", "-c", script],  # KubeRay sets the variable
        "securityContext": RESTRICTED,
        "resources": HELPER_RESOURCES,
    }


def container_resources(group: RayGroup) -> Json:
    """Requests and limits of the Ray container, GPUs included."""
    return with_gpus(group.resources, group.gpus)


def uses_rdma(resources: Resources) -> bool:
    """Whether Pods ask for a device of remote memory access, which needs locked memory. An amount of 0 is none."""
    amounts = {**resources.requests, **resources.limits}
    return any(parse_quantity(amounts[name]) > 0 for name in amounts for word in RDMA_RESOURCES if word in name)


def _probe(*, period: int, failures: int) -> Json:
    action = {"path": "/api/local_raylet_healthz", "port": RAY_AGENT_PORT}
    return {"httpGet": action, "periodSeconds": period, "timeoutSeconds": 10, "failureThreshold": failures}


def _ray_start(plan: RayClusterPlan) -> dict[str, str]:
    shared = int(parse_quantity(plan.pods.shared_memory))
    return {**AGENT_PORTS, "object-store-memory": str(max(MINIMUM_OBJECT_STORE, shared // OBJECT_STORE_SHARE))}


def _ray_resources(group: RayGroup) -> dict[str, str]:
    return {name: str(amount) for name, amount in group.ray_resources.items()}
