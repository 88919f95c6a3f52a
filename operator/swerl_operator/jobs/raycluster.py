"""The RayCluster of one attempt.

Guarantees: a pure function of the attempt; the head runs the driver with the only service-account token, workers have
none; a dead Ray container is never restarted in place (restartPolicy Never), so that a lost head is seen as lost;
custom Ray resources tell the driver where ranks, engines and rollout workers belong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from swerl_api import Resources
from swerl_api.names import (
    ENGINE_RESOURCE,
    EVALUATION_PATH,
    JOB_FILE_DIRECTORY,
    JUDGE_PATH,
    JUDGE_RESOURCE,
    MODEL_PATH,
    OUTPUT_PATH,
    PROMPTS_PATH,
    ROLE_DRIVER,
    ROLE_ENGINE,
    ROLE_TRAIN,
    ROLLOUT_RESOURCE,
    TASKS_PATH,
    TRAIN_RESOURCE,
)

from .attempt import Attempt, Object
from .quantity import parse_quantity
from .sources import RESTRICTED, Placed, place_config_map, place_output, place_shared_memory, place_source, together

API = "ray.io/v1"
GPU = "nvidia.com/gpu"
DASHBOARD_PORT = 8265
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
    environment: dict[str, str] = field(default_factory=dict)


def ray_cluster(attempt: Attempt) -> Object:
    """RayCluster v1 (KubeRay >= 1.4)."""
    head, *workers = ray_groups(attempt)
    return {
        "apiVersion": API,
        "kind": "RayCluster",
        "metadata": attempt.cluster_metadata(),
        "spec": {
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "rayStartParams": {"dashboard-host": "0.0.0.0", **_ray_start(attempt)},
                "resources": _units(head),
                "template": pod_template(attempt, head),
            },
            "workerGroupSpecs": [_worker_group(attempt, group) for group in workers],
        },
    }


def ray_groups(attempt: Attempt) -> list[Group]:
    """The head first, then the worker groups."""
    spec = attempt.spec
    head = Group("head", ROLE_DRIVER, 1, 0, spec.trainer.head_resources, {ROLLOUT_RESOURCE: spec.rollout.workers})
    ranks = max(1, spec.trainer.gpus)
    engines = spec.rollout.engines
    train_units = {TRAIN_RESOURCE: ranks}
    if spec.colocate:
        train_units[ENGINE_RESOURCE] = engines // spec.trainer.replicas
    memory = {} if spec.colocate else {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    cuda = GPU_ENVIRONMENT | memory if spec.trainer.gpus else {}
    train = Group(
        "train", ROLE_TRAIN, spec.trainer.replicas, spec.trainer.gpus, spec.trainer.resources, train_units, cuda
    )
    groups = [head, train]
    if not spec.colocate:
        per_engine = spec.rollout.gpus_per_engine
        groups.append(Group("engine", ROLE_ENGINE, engines, per_engine, spec.rollout.resources, {ENGINE_RESOURCE: 1}))
    if spec.judge is not None:
        judge = spec.judge
        units = {JUDGE_RESOURCE: 1}
        groups.append(Group("judge", ROLE_ENGINE, judge.engines, judge.gpus_per_engine, spec.rollout.resources, units))
    return groups


def pod_template(attempt: Attempt, group: Group) -> Object:
    """Pod template of `group`."""
    placed = together(_places(attempt, group))
    trainer = attempt.spec.trainer
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": group.role == ROLE_DRIVER,
        "nodeSelector": trainer.node_selector,
        "tolerations": tolerations(attempt),
        "imagePullSecrets": [{"name": name} for name in pull_secrets(attempt, placed)],
        "initContainers": placed.init_containers,
        "containers": [_ray_container(attempt, group, placed.mounts)],
        "volumes": placed.volumes,
    }
    if group.role == ROLE_DRIVER:
        pod["serviceAccountName"] = attempt.account
    return {"metadata": {"labels": attempt.labels(group.role)}, "spec": {key: v for key, v in pod.items() if v != []}}


def tolerations(attempt: Attempt) -> list[Object]:
    """Tolerations of every Ray Pod."""
    return [t.model_dump(by_alias=True, exclude_none=True) for t in attempt.spec.trainer.tolerations]


def pull_secrets(attempt: Attempt, placed: Placed) -> list[str]:
    """Pull secrets of the trainer image and of the image sources, each once."""
    return list(dict.fromkeys([*attempt.spec.trainer.pull_secrets, *placed.pull_secrets]))


def _worker_group(attempt: Attempt, group: Group) -> Object:
    return {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "rayStartParams": _ray_start(attempt),
        "resources": _units(group),
        "template": pod_template(attempt, group),
    }


def _ray_container(attempt: Attempt, group: Group, mounts: list[Object]) -> Object:
    trainer = attempt.spec.trainer
    environment = RAY_ENVIRONMENT | group.environment | trainer.env
    security = RESTRICTED | {"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}} if group.gpus else RESTRICTED
    container: Object = {
        "name": f"ray-{group.name}",
        "image": trainer.image,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": container_resources(group),
        "securityContext": security,
        "readinessProbe": _probe(period=2, failures=30),
        "livenessProbe": _probe(period=10, failures=60),
        "volumeMounts": mounts,
    }
    if trainer.env_from_secrets:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in trainer.env_from_secrets]
    if group.role == ROLE_DRIVER:
        container["ports"] = [
            {"name": "gcs", "containerPort": 6379},
            {"name": "dashboard", "containerPort": DASHBOARD_PORT},
            {"name": "client", "containerPort": 10001},
        ]
    return container


def container_resources(group: Group) -> Object:
    """Requests and limits of the Ray container, GPUs included."""
    requests, limits = dict(group.resources.requests), dict(group.resources.limits)
    if group.gpus:
        requests[GPU] = limits[GPU] = group.gpus
    return {"requests": requests, "limits": limits}


def _probe(*, period: int, failures: int) -> Object:
    action = {"path": "/api/local_raylet_healthz", "port": AGENT_PORT}
    return {"httpGet": action, "periodSeconds": period, "timeoutSeconds": 10, "failureThreshold": failures}


def _places(attempt: Attempt, group: Group) -> list[Placed]:
    """Every Pod sees the model, its own job file and the output; only the head sees tasks, which hold the solutions."""
    spec = attempt.spec
    model = spec.model.source
    if group.name == "judge" and spec.judge is not None:
        return [*_common_places(attempt), place_source("judge", JUDGE_PATH, spec.judge.model)]
    places = [*_common_places(attempt), place_source("model", MODEL_PATH, model)]
    if group.role != ROLE_DRIVER:
        return places
    places.append(place_source("tasks", TASKS_PATH, spec.tasks.source))
    if spec.evaluation is not None:
        places.append(place_source("evaluation", EVALUATION_PATH, spec.evaluation.source))
    if spec.agent.prompt_templates is not None:
        places.append(place_config_map("prompts", PROMPTS_PATH, spec.agent.prompt_templates.config_map.name))
    if spec.judge is not None:
        places.append(place_source("judge", JUDGE_PATH, spec.judge.model))
    return places


def _common_places(attempt: Attempt) -> list[Placed]:
    return [
        place_config_map("job", JOB_FILE_DIRECTORY, attempt.name),
        place_output(OUTPUT_PATH, attempt.spec.checkpoint.volume),
        place_shared_memory(attempt.spec.trainer.shared_memory),
    ]


def _ray_start(attempt: Attempt) -> dict[str, str]:
    shared = int(parse_quantity(attempt.spec.trainer.shared_memory))
    return {**AGENT_PORTS, "object-store-memory": str(max(MINIMUM_OBJECT_STORE, shared // OBJECT_STORE_SHARE))}


def _units(group: Group) -> dict[str, str]:
    return {name: str(amount) for name, amount in group.units.items()}
