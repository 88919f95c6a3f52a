"""RayClusters: of the groups of Pods that somebody plans.

Guarantees: a pure function of the plan; the head runs the driver with the only service-account token, workers have
none; a dead Ray container is never restarted in place (restartPolicy Never), so that a lost head is seen as lost;
custom Ray resources tell the driver where ranks, engines and rollout workers belong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swerl_api import RayPods, Resources
from swerl_api.names import ROLE_DRIVER, ROLE_LABEL
from swerl_api.pods import PodSettings

from ..quantity import parse_quantity
from .attempt import Object
from .sources import HELPER_RESOURCES, RESTRICTED, Placed, together

API = "ray.io/v1"
GPU = "nvidia.com/gpu"
GCS_PORT, DASHBOARD_PORT = 6379, 8265
AGENT_PORT = 52365  # Ray's dashboard agent, on every node
# Ports known beforehand let an agent on a busy node announce itself in time (swerl_trainer/ray_start).
AGENT_PORTS = {
    "dashboard-agent-listen-port": str(AGENT_PORT),
    "dashboard-agent-grpc-port": "52366",
    "runtime-env-agent-port": "52367",
    "metrics-export-port": "8080",
}
GRACE_SECONDS = 10  # from SIGTERM to SIGKILL: nothing is saved on the way out, checkpoints are atomic
MINIMUM_OBJECT_STORE = 80 * 2**20  # bytes; Ray refuses less than 75 MB
OBJECT_STORE_SHARE = 2  # one part of shared memory in this many is Ray's, the rest is left to torch

# A busy node answers late: a node counts as dead after 10 missed checks of up to 30 s, not after seconds. Actors run at
# the priority of any other process: trainer and engines are the work, not its background.
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
GPU_ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


@dataclass(frozen=True)
class Group:
    """One group of equal Ray Pods."""

    name: str
    role: str
    replicas: int
    gpus: int  # per Pod
    resources: Resources
    units: dict[str, int]  # custom Ray resources per Pod
    places: Sequence[Placed]  # what stands in its Pods
    spec_field: str  # what one changes to make its Pods smaller
    environment: dict[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)  # besides Ray's; those of the head become its Service's


@dataclass(frozen=True)
class Plan:
    """A RayCluster to be; the head is the first of its groups."""

    metadata: Object  # of the RayCluster
    labels: Mapping[str, str]  # of its Pods, besides their role
    account: str  # ServiceAccount of the head
    pods: RayPods
    spec_field: str  # where `pods` stands
    groups: Sequence[Group]


def ray_cluster(plan: Plan) -> Object:
    """RayCluster v1 (KubeRay >= 1.4)."""
    head, *workers = plan.groups
    return {
        "apiVersion": API,
        "kind": "RayCluster",
        "metadata": plan.metadata,
        "spec": {
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "rayStartParams": {"dashboard-host": "0.0.0.0", **_ray_start(plan)},
                "resources": _units(head),
                "template": pod_template(plan, head),
            },
            "workerGroupSpecs": [_worker_group(plan, group) for group in workers],
        },
    }


def pod_template(plan: Plan, group: Group) -> Object:
    """Pod template of `group`."""
    placed = together(group.places)
    waiting = [] if group.role == ROLE_DRIVER else [_wait_for_head(plan)]
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": group.role == ROLE_DRIVER,
        "nodeSelector": plan.pods.node_selector,
        "tolerations": tolerations(plan.pods),
        "imagePullSecrets": [{"name": name} for name in pull_secrets(plan.pods, placed)],
        "initContainers": [*placed.init_containers, *waiting],
        "containers": [_ray_container(plan, group, placed.mounts)],
        "volumes": placed.volumes,
    }
    if group.role == ROLE_DRIVER:
        pod["serviceAccountName"] = plan.account
    labels = {**plan.labels, ROLE_LABEL: group.role}
    return {"metadata": {"labels": labels}, "spec": {key: v for key, v in pod.items() if v != []}}


def tolerations(pods: PodSettings) -> list[Object]:
    """Tolerations of the Pods, as a manifest has them."""
    return [t.model_dump(by_alias=True, exclude_none=True) for t in pods.tolerations]


def pull_secrets(pods: PodSettings, placed: Placed) -> list[str]:
    """Pull secrets of the Pods' image and of the image sources, each once."""
    return list(dict.fromkeys([*pods.pull_secrets, *placed.pull_secrets]))


def container_environment(pods: PodSettings, environment: Mapping[str, str]) -> Object:
    """`env` and `envFrom` of a container: what the user says wins over `environment`."""
    values = {**environment, **pods.env}
    found: Object = {"env": [{"name": name, "value": value} for name, value in values.items()]}
    if pods.env_from_secrets:
        found["envFrom"] = [{"secretRef": {"name": name}} for name in pods.env_from_secrets]
    return found


def _worker_group(plan: Plan, group: Group) -> Object:
    return {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "rayStartParams": _ray_start(plan),
        "resources": _units(group),
        "template": pod_template(plan, group),
    }


def _ray_container(plan: Plan, group: Group, mounts: list[Object]) -> Object:
    security = RESTRICTED | {"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}} if group.gpus else RESTRICTED
    container: Object = {
        "name": f"ray-{group.name}",
        "image": plan.pods.image,
        **container_environment(plan.pods, RAY_ENVIRONMENT | group.environment),
        "resources": container_resources(group),
        "securityContext": security,
        "readinessProbe": _probe(period=2, failures=30),
        "livenessProbe": _probe(period=10, failures=60),
        "volumeMounts": mounts,
    }
    if group.role == ROLE_DRIVER:
        ports = {"gcs": GCS_PORT, "dashboard": DASHBOARD_PORT, "client": 10001, **group.ports}
        container["ports"] = [{"name": name, "containerPort": port} for name, port in ports.items()]
    return container


def _wait_for_head(plan: Plan) -> Object:
    """Ends when the head answers. KubeRay's own (`wait-gcs-ready`) starts Ray for each look, and can be turned off."""
    look = f'until (: <"/dev/tcp/$FQ_RAY_IP/{GCS_PORT}") 2>/dev/null; do sleep 0.5; done'
    return {
        "name": "wait-for-head",
        "image": plan.pods.image,
        "command": ["bash", "-c", look],  # KubeRay sets the variable
        "securityContext": RESTRICTED,
        "resources": HELPER_RESOURCES,
    }


def container_resources(group: Group) -> Object:
    """Requests and limits of the Ray container, GPUs included."""
    requests, limits = dict(group.resources.requests), dict(group.resources.limits)
    if group.gpus:
        requests[GPU] = limits[GPU] = group.gpus
    return {"requests": requests, "limits": limits}


def _probe(*, period: int, failures: int) -> Object:
    action = {"path": "/api/local_raylet_healthz", "port": AGENT_PORT}
    return {"httpGet": action, "periodSeconds": period, "timeoutSeconds": 10, "failureThreshold": failures}


def _ray_start(plan: Plan) -> dict[str, str]:
    shared = int(parse_quantity(plan.pods.shared_memory))
    return {**AGENT_PORTS, "object-store-memory": str(max(MINIMUM_OBJECT_STORE, shared // OBJECT_STORE_SHARE))}


def _units(group: Group) -> dict[str, str]:
    return {name: str(amount) for name, amount in group.units.items()}
